"""Owns: a report as Markdown. Charts are files next to it, so that it can be read where it is committed."""

from uvhttp_bench.output.tables import markdown_table
from uvhttp_bench.report_blocks import Block, Bullets, Facts, Heading, Picture, Report, Table, Text


def pictures(report: Report) -> list[tuple[str, str]]:
    """File names and their text."""
    found = []
    for picture in report.pictures:
        found.append((_name(report, picture), picture.svg))
        if picture.narrow:
            found.append((_name(report, picture, "-narrow"), picture.narrow))
    return found


def _name(report: Report, picture: Picture, ending: str = "") -> str:
    return f"{report.file_name}-{picture.name}{ending}.svg"


def responsive(wide: str, narrow: str, title: str) -> str:
    """Markdown has no word for it; GitHub shows these elements."""
    return f'<picture>\n  <source media="(max-width: 700px)" srcset="{narrow}">\n  <img src="{wide}" alt="{title}">\n</picture>\n'


def _linked(table: Table, data: str) -> list[tuple[str, ...]]:
    """The first cell of each row leads to its records."""
    if not table.places:
        return list(table.rows)
    return [(f"[{row[0]}]({data}{place})", *row[1:]) for row, place in zip(table.rows, table.places, strict=True)]


def _block(block: Block, report: Report, data: str) -> str:
    if isinstance(block, Text):
        return block.text + "\n"
    if isinstance(block, Heading):
        return f"### {block.text}\n"
    if isinstance(block, Bullets):
        return "".join(f"- {item}\n" for item in block.items)
    if isinstance(block, Facts):
        return markdown_table(("", ""), block.pairs)
    if isinstance(block, Table):
        return (f"**{block.title}**\n\n" if block.title else "") + markdown_table(block.heads, _linked(block, data))
    if isinstance(block, Picture):
        name = _name(report, block)
        return (
            responsive(name, _name(report, block, "-narrow"), block.title) if block.narrow else f"![{block.title}]({name})\n"
        )
    raise TypeError(block)


def markdown(report: Report, data: str) -> str:
    """`data`: where the records are, as a path from the report."""
    lines = [f"# {report.title}", "", " ".join(report.finding), ""]
    if report.chart:
        lines += [_block(report.chart, report, data)]
    lines.append(
        f"The same as a page: [{report.file_name}.html]({report.file_name}.html). The first cell of a row leads to its records in "
        f"[{data.rsplit('/', 1)[-1]}]({data})."
    )
    for section in report.sections:
        lines += ["", f"## {section.title}", ""]
        lines.append("\n".join(_block(block, report, data) for block in section.blocks).rstrip("\n"))
    return "\n".join(lines) + "\n"
