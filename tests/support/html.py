"""A page of a report, taken apart."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

VOID = {"br", "col", "img", "input", "meta"}


class Page(HTMLParser):
    """Elements with their attributes, the text that is shown, and a complaint for tags that do not match."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.open, self.texts, self.rows = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        assert len(dict(attributes)) == len(attributes), f"an attribute twice in <{tag}>"
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th") and self.rows:
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> ends nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "script" not in self.open and "style" not in self.open:
            self.texts.append(data)
            if self.open and self.open[-1] != "tr" and "table" in self.open and self.rows[-1]:
                self.rows[-1][-1] += data

    @property
    def text(self):
        return "\n".join(self.texts)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    def row(self, first):
        """Return the rows of tables that begin with this text."""
        return [row[1:] for row in self.rows if row and row[0] == first]


def explorer_data(text):
    (block,) = re.findall(r'<script type="application/json" id="explorer-data">(.*?)</script>', text, flags=re.DOTALL)
    return json.loads(block)
