#!/usr/bin/env python3
"""Draws a captured terminal screen as a PNG.

  tmux capture-pane -e -p -t NAME | tools/ansi2png.py OUT.png [--cols N] [--light]

Reads text with SGR colours (16, 256, truecolor) from standard input. Needs Pillow and the DejaVu Sans Mono font
(Debian: fonts-dejavu-core).
"""
import re
import sys
import unicodedata

from PIL import Image, ImageDraw, ImageFont

CELL_W, CELL_H, SIZE = 10, 20, 16
FONT = "DejaVuSansMono{}.ttf"
BASE = [(0x1c, 0x1f, 0x26), (0xe0, 0x6c, 0x75), (0x98, 0xc3, 0x79), (0xe5, 0xc0, 0x7b),
        (0x61, 0xaf, 0xef), (0xc6, 0x78, 0xdd), (0x56, 0xb6, 0xc2), (0xab, 0xb2, 0xbf),
        (0x5c, 0x63, 0x70), (0xff, 0x7b, 0x86), (0xb1, 0xe0, 0x8c), (0xff, 0xd7, 0x8a),
        (0x7c, 0xc3, 0xff), (0xde, 0x8e, 0xf5), (0x6a, 0xd4, 0xe0), (0xff, 0xff, 0xff)]
LINES = {"─": "lr", "│": "ud", "┌": "rd", "┐": "ld", "└": "ru", "┘": "lu", "├": "udr", "┤": "udl",
         "┬": "lrd", "┴": "lru", "┼": "lrud", "╭": "rd", "╮": "ld", "╰": "ru", "╯": "lu"}
LOWER = {c: (i + 1) / 8 for i, c in enumerate("▁▂▃▄▅▆▇█")}
LEFT = {c: (7 - i) / 8 for i, c in enumerate("▉▊▋▌▍▎▏")}
SHADE = {"░": 0.25, "▒": 0.5, "▓": 0.75}


def indexed(n):
    if n < 16:
        return BASE[n]
    if n < 232:
        n -= 16
        return tuple(0 if v == 0 else 55 + 40 * v for v in (n // 36, n // 6 % 6, n % 6))
    return (8 + 10 * (n - 232),) * 3


def sgr(params, state, default):
    codes = [int(p or 0) for p in params.replace(":", ";").split(";")]
    while codes:
        c = codes.pop(0)
        if c == 0:
            state.update(default)
        elif c in (1, 2, 3, 4, 7, 9):
            state[c] = True
        elif c in (22, 23, 24, 27, 29):
            for off in {22: (1, 2), 23: (3,), 24: (4,), 27: (7,), 29: (9,)}[c]:
                state[off] = False
        elif c in (38, 48) and codes:
            kind = codes.pop(0)
            rgb = indexed(codes.pop(0)) if kind == 5 else tuple(codes.pop(0) for _ in range(3))
            state["fg" if c == 38 else "bg"] = rgb
        elif c == 39:
            state["fg"] = default["fg"]
        elif c == 49:
            state["bg"] = default["bg"]
        elif 30 <= c <= 37 or 90 <= c <= 97:
            state["fg"] = BASE[c - 30 if c < 90 else c - 82]
        elif 40 <= c <= 47 or 100 <= c <= 107:
            state["bg"] = BASE[c - 40 if c < 100 else c - 92]


def mix(a, b, t):
    return tuple(round(x + (y - x) * t) for x, y in zip(a, b))


def draw_cell(draw, fonts, x, y, width, char, s):
    fg, bg = (s["bg"], s["fg"]) if s[7] else (s["fg"], s["bg"])
    if s[2]:
        fg = mix(fg, bg, 0.45)
    w, h = CELL_W * width, CELL_H
    draw.rectangle([x, y, x + w - 1, y + h - 1], fill=bg)
    cx, cy = x + CELL_W // 2, y + h // 2
    if char in LINES:
        for side in LINES[char]:
            end = {"l": (x, cy), "r": (x + w - 1, cy), "u": (cx, y), "d": (cx, y + h - 1)}[side]
            draw.line([(cx, cy), end], fill=fg)
    elif char in LOWER:
        draw.rectangle([x, y + h - round(h * LOWER[char]), x + w - 1, y + h - 1], fill=fg)
    elif char in LEFT:
        draw.rectangle([x, y, x + max(1, round(w * LEFT[char])) - 1, y + h - 1], fill=fg)
    elif char in SHADE:
        draw.rectangle([x, y, x + w - 1, y + h - 1], fill=mix(bg, fg, SHADE[char]))
    elif char == "▀":
        draw.rectangle([x, y, x + w - 1, y + h // 2 - 1], fill=fg)
    elif not char.isspace():
        draw.text((x, y + 1), char, font=fonts["-Bold" if s[1] else "-Oblique" if s[3] else ""], fill=fg)
    if s[4]:
        draw.line([(x, y + h - 2), (x + w - 1, y + h - 2)], fill=fg)
    if s[9]:
        draw.line([(x, cy), (x + w - 1, cy)], fill=fg)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    light = "--light" in sys.argv
    cols = int(sys.argv[sys.argv.index("--cols") + 1]) if "--cols" in sys.argv else 0
    default = {"fg": BASE[7], "bg": BASE[0], 1: False, 2: False, 3: False, 4: False, 7: False, 9: False}
    if light:
        default.update(fg=(0x38, 0x3a, 0x42), bg=(0xfa, 0xfa, 0xfa))
    rows, state = [], dict(default)
    for line in sys.stdin.buffer.read().decode("utf-8", "replace").rstrip("\n").split("\n"):
        row = []
        for part in re.split(r"(\x1b\[[0-9;:]*[A-Za-z])", line):
            if part.startswith("\x1b["):
                if part.endswith("m"):
                    sgr(part[2:-1], state, default)
                continue
            for char in part:
                if unicodedata.category(char) in ("Mn", "Me", "Cf"):  # U+200D and U+FE0F among them
                    continue
                row.append((char, 2 if unicodedata.east_asian_width(char) in "WF" else 1, dict(state)))
        rows.append(row)
    cols = cols or max((sum(w for _, w, _ in row) for row in rows), default=1)
    image = Image.new("RGB", (cols * CELL_W, len(rows) * CELL_H), default["bg"])
    draw = ImageDraw.Draw(image)
    fonts = {style: ImageFont.truetype(FONT.format(style), SIZE) for style in ("", "-Bold", "-Oblique")}
    for j, row in enumerate(rows):
        x = 0
        for char, width, s in row:
            draw_cell(draw, fonts, x, j * CELL_H, width, char, s)
            x += width * CELL_W
    image.save(sys.argv[1])


if __name__ == "__main__":
    main()
