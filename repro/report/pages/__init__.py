"""What is written of tables and figures: text formats, LaTeX, the HTML page, README's blocks."""
