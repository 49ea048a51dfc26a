"""What reports read: stored runs grouped into cells, published numbers, bench rows, bounds."""
