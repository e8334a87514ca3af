"""One self-contained HTML page from evaluated systems."""
