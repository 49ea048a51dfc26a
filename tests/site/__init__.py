"""The documentation: its links, its generated pages, the commands of its tutorial."""
