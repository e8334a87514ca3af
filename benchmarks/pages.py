"""Tables that a command prints, kept in a page between two marks."""

import re


class Told:
    """Lines printed and remembered, by the part of the page they are for."""

    def __init__(self):
        self.parts = {}

    def say(self, part, line):
        """Print a line of a part."""
        print(line, flush=True)
        self.parts.setdefault(part, []).append(line)

    def write(self, page):
        """Replace what stands between the marks of each part; a page without them is refused."""
        text = page.read_text(encoding="utf-8")
        for part, lines in self.parts.items():
            found = re.compile(rf"(<!-- begin {part} -->\n).*?(<!-- end {part} -->)", re.DOTALL)
            if not found.search(text):
                raise SystemExit(f"{page}: has no marks <!-- begin {part} --> and <!-- end {part} -->")
            body = "\n".join(lines).strip("\n")
            text = found.sub(lambda match, body=body: f"{match[1]}\n{body}\n\n{match[2]}", text)
        page.write_text(text, encoding="utf-8")
