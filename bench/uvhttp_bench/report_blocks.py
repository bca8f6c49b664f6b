"""Owns: what a report is made of, whoever writes it down."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Text:
    text: str


@dataclass(frozen=True)
class Heading:
    text: str


@dataclass(frozen=True)
class Bullets:
    items: tuple[str, ...]


@dataclass(frozen=True)
class Facts:
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Table:
    """`places`: for each row, where in the data file its records are; the first cell is then a link."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    places: tuple[str, ...] = ()


@dataclass(frozen=True)
class Picture:
    title: str
    name: str  # of its file, after the report's
    svg: str
    narrow: str = ""  # the same for a narrow screen; empty: `svg` fits


Block = Text | Heading | Bullets | Facts | Table | Picture


@dataclass(frozen=True)
class Section:
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Report:
    title: str
    date: str
    version: str
    name: str  # baseline, regression, peers
    status: str
    finding: tuple[str, ...]
    chart: Picture | None
    sections: tuple[Section, ...]
    file_name: str

    @property
    def pictures(self) -> tuple[Picture, ...]:
        inner = tuple(block for section in self.sections for block in section.blocks if isinstance(block, Picture))
        return (self.chart, *inner) if self.chart else inner
