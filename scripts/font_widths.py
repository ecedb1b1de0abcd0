"""Measures DejaVu Sans for runtally/experiments/text_widths.json. Needs fonttools and the fonts; nothing else here does.

    python scripts/font_widths.py /usr/share/fonts/truetype/dejavu

What it writes is committed; the same version of the fonts gives the same bytes. The fonts are drawn after Bitstream Vera, whose
widths are close to Verdana's, the first font that badges ask for.
"""

import json
import sys
from pathlib import Path

from fontTools.ttLib import TTFont

TARGET = Path(__file__).resolve().parents[1] / "runtally" / "experiments" / "text_widths.json"
FACES = {"regular": "DejaVuSans.ttf", "bold": "DejaVuSans-Bold.ttf"}
LICENCE = (
    "Advance widths measured in the DejaVu fonts. Bitstream Vera: Copyright (c) 2003 by Bitstream, Inc. All Rights "
    "Reserved; its licence permits use, copying and modification. DejaVu changes are in the public domain. No part of a "
    "font is in this file."
)
# Latin, Greek and Cyrillic letters, punctuation, and signs of currencies; the service knows the others by their class.
MEASURED = (range(0x20, 0x530), range(0x1E00, 0x2070), range(0x20A0, 0x20C1))


def main() -> None:
    folder = Path(sys.argv[1])
    fonts = {face: TTFont(folder / name) for face, name in FACES.items()}
    table = {
        "font": f"DejaVu Sans, {fonts['regular']['name'].getDebugName(5)}",
        "licence": LICENCE,
        "unit": "thousandths of the font size; code points are hexadecimal",
        **{face: _widths(font) for face, font in fonts.items()},
    }
    TARGET.write_text(json.dumps(table, indent=1) + "\n")


def _widths(font: TTFont) -> dict[int, str]:
    """The code points of each width, as ranges."""
    units, metrics = font["head"].unitsPerEm, font["hmtx"]
    points: dict[int, list[int]] = {}
    for point, glyph in sorted(font.getBestCmap().items()):
        if any(point in block for block in MEASURED):
            points.setdefault(round(metrics[glyph][0] * 1000 / units), []).append(point)
    return {width: _ranges(points[width]) for width in sorted(points)}


def _ranges(points: list[int]) -> str:
    ranges: list[list[int]] = []
    for point in points:
        if ranges and point == ranges[-1][1] + 1:
            ranges[-1][1] = point
        else:
            ranges.append([point, point])
    return " ".join(f"{first:x}" if first == last else f"{first:x}-{last:x}" for first, last in ranges)


if __name__ == "__main__":
    main()
