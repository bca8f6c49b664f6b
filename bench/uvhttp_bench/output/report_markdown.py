"""Owns: a report as Markdown, in the standard's six sections."""

from uvhttp_bench.output.tables import markdown_table
from uvhttp_bench.reporting import Block, Bullets, Facts, Picture, Report, Table, Text


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def _block(block: Block, page: str) -> str:
    if isinstance(block, Text):
        return block.text + "\n"
    if isinstance(block, Bullets):
        return "".join(f"- {item}\n" for item in block.items)
    if isinstance(block, Facts):
        return markdown_table(("", ""), block.pairs)
    if isinstance(block, Table):
        return f"**{block.title}**\n\n" + markdown_table(block.heads, block.rows)
    if isinstance(block, Picture):
        return f"[{block.title}]({page}) (records {_escaped(block.records)})\n"
    raise TypeError(block)


def markdown(report: Report, data: str) -> str:
    """`data`: where the records are, as a path from the report."""
    page = f"{report.file_name}.html"
    lines = [
        f"# {report.title}",
        "",
        f"Records: [{data.rsplit('/', 1)[-1]}]({data}). Pictures: [{page}]({page}). Percentiles come from merged "
        "histograms; a blank is a figure that does not exist or does not hold.",
    ]
    for section in report.sections:
        lines += ["", f"## {section.title}", ""]
        lines.append("\n".join(_block(block, page) for block in section.blocks).rstrip("\n"))
    return "\n".join(lines) + "\n"
