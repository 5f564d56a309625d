"""A terminal for tests: the program runs on a pseudo-terminal of its own, and what it writes is drawn here, by the
sequences that the terminfo of its TERM may use. Unlike tmux it speaks any encoding. Not a suite itself."""
import array
import fcntl
import os
import pty
import re
import select
import signal
import termios
import time
import unicodedata

PATIENCE = float(os.environ.get("PATIENCE", 150))  # seconds to wait for a text before a test fails; never a measure of speed
CSI = re.compile(r"\x1b\[([?<>=!]?)([\d;:]*)([ -/]*)([@-~])")
OTHER = re.compile(r"\x1b(?:[()*+].|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])", re.S)


def width(c):
    if unicodedata.combining(c) or unicodedata.category(c) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(c) in "WF" else 1


class Failure(Exception):
    pass


class Grid:
    """What the screen shows, after what has been written."""

    def __init__(self, columns, lines, wraps_at_once=False):
        self.wraps_at_once = wraps_at_once  # am without xenl: the cursor leaves a full line with its last character
        self.modes, self.unknown, self.rest = set(), [], ""
        self.resize(columns, lines)

    def resize(self, columns, lines):
        self.columns, self.lines = columns, lines
        self.x = self.y = 0
        self.saved = 0, 0
        self.top, self.bottom = 0, lines - 1
        self.cell = [self.blank() for _ in range(lines)]
        self.last = " "

    def blank(self):
        return [" "] * self.columns

    def text(self):
        return "\n".join("".join(row).rstrip() for row in self.cell)

    def write(self, text):
        text, self.rest = self.rest + text, ""
        at = 0
        while at < len(text):
            if text[at] != "\x1b":
                self.put(text[at])
                at += 1
                continue
            m = CSI.match(text, at) or OTHER.match(text, at)
            if not m or text[at:at + 2] == "\x1b[" and m.re is not CSI:
                self.rest = text[at:]  # the rest is still to come
                return
            if m.re is CSI:
                self.control(*m.groups())
            elif m.group() == "\x1bM":
                self.scroll(-1) if self.y == self.top else self.move(self.x, self.y - 1)
            elif m.group() == "\x1bD":
                self.put("\n")
            elif m.group() == "\x1b7":
                self.saved = self.x, self.y
            elif m.group() == "\x1b8":
                self.move(*self.saved)
            at = m.end()

    def move(self, x, y):
        self.x, self.y = max(0, min(x, self.columns - 1)), max(0, min(y, self.lines - 1))

    def scroll(self, n):
        for _ in range(abs(n)):
            out, new = (self.top, self.bottom) if n > 0 else (self.bottom, self.top)
            del self.cell[out]
            self.cell.insert(new, self.blank())

    def put(self, c):
        if c == "\r":
            self.x = 0
        elif c == "\n":
            self.scroll(1) if self.y == self.bottom else self.move(self.x, self.y + 1)
        elif c == "\b":
            self.move(self.x - 1, self.y)
        elif c == "\t":
            self.move((self.x // 8 + 1) * 8, self.y)
        elif c >= " " and c != "\x7f":
            self.show(c)

    def show(self, c):
        wide = width(c)
        if not wide:
            before = self.x - 1 - (self.x > 1 and not self.cell[self.y][self.x - 1])
            self.cell[self.y][max(0, before)] += c
            return
        if self.x + wide > self.columns:
            self.x = 0
            self.put("\n")
        self.cell[self.y][self.x] = self.last = c
        if wide == 2:
            self.cell[self.y][self.x + 1] = ""
        self.x += wide
        if self.wraps_at_once and self.x == self.columns:
            self.x = 0
            self.put("\n")

    def control(self, mark, numbers, middle, final):
        n = [int(x or 0) for x in re.split("[;:]", numbers)]
        one, row = n[0] or 1, self.cell[self.y] if self.y < self.lines else []
        if mark == "?" and final in "hl":
            for mode in n:
                (self.modes.add if final == "h" else self.modes.discard)(mode)
        elif mark or middle or final in "mhlctnq":
            pass
        elif final in "Hf":
            self.move((n[1] if len(n) > 1 else 1) - 1, one - 1)
        elif final in "ABCDEF`Gd":
            x, y = {"A": (self.x, self.y - one), "B": (self.x, self.y + one), "C": (self.x + one, self.y),
                    "D": (self.x - one, self.y), "E": (0, self.y + one), "F": (0, self.y - one),
                    "`": (one - 1, self.y), "G": (one - 1, self.y), "d": (self.x, one - 1)}[final]
            self.move(x, y)
        elif final == "J":
            cut = {0: (self.y + 1, self.lines), 1: (0, self.y), 2: (0, self.lines)}[n[0]]
            for y in range(*cut):
                self.cell[y] = self.blank()
            if n[0] < 2:
                self.control("", str(n[0]), "", "K")
        elif final in "KX":
            cut = {0: (self.x, self.columns), 1: (0, self.x + 1), 2: (0, self.columns)}[n[0] if final == "K" else 0]
            last = self.x + one if final == "X" else self.columns
            for x in range(cut[0], min(cut[1], last)):
                row[x] = " "
        elif final == "P":
            row[self.x:] = (row[self.x + one:] + [" "] * one)[:self.columns - self.x]
        elif final == "@":
            row[self.x:] = ([" "] * one + row[self.x:])[:self.columns - self.x]
        elif final in "LM":
            top, self.top = self.top, self.y
            self.scroll(one if final == "M" else -one)
            self.top = top
        elif final in "ST":
            self.scroll(one if final == "S" else -one)
        elif final == "b":
            for _ in range(one):
                self.show(self.last)
        elif final == "r":
            self.top, self.bottom = one - 1, (n[1] if len(n) > 1 and n[1] else self.lines) - 1
            self.move(0, 0)
        else:
            self.unknown.append((mark, numbers, final))


class Terminal:
    def __init__(self, command, env, columns=80, lines=24, encoding="utf-8", wraps_at_once=False):
        self.encoding, self.grid, self.raw = encoding, Grid(columns, lines, wraps_at_once), b""
        self.drawn = 0
        self.child, self.fd = pty.fork()
        if not self.child:
            try:
                self.size(0, columns, lines)
                signal.pthread_sigmask(signal.SIG_SETMASK, ())
                os.execvpe(command[0], command, env)
            finally:
                os._exit(127)
        self.found = termios.tcgetattr(self.fd)
        self.status = None

    @staticmethod
    def size(fd, columns, lines):
        fcntl.ioctl(fd, termios.TIOCSWINSZ, array.array("H", [lines, columns, 0, 0]))

    def resize(self, columns, lines):
        self.grid.resize(columns, lines)
        self.size(self.fd, columns, lines)

    def send(self, text):
        """Text in the terminal's encoding, or bytes as they are."""
        os.write(self.fd, text if isinstance(text, bytes) else text.encode(self.encoding))

    def read(self, seconds):
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.fd, 1 << 16)
        except OSError:
            data = b""
        self.raw += data
        whole = self.raw[self.drawn:]
        for cut in range(4):  # a character may have come in part
            try:
                self.grid.write(whole[:len(whole) - cut].decode(self.encoding))
                self.drawn = len(self.raw) - cut
                return bool(data)
            except UnicodeDecodeError:
                continue
        raise Failure(f"not {self.encoding}: {whole!r}")

    def wait(self, pattern, gone=False):
        """Until the screen has (or no longer has) the pattern and nothing more is written for a moment."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            more = self.read(0.1)
            if not more and bool(re.search(pattern, self.grid.text(), re.M)) != gone:
                return self.grid.text()
            if not more and self.ended():
                break
        raise Failure(f"{'still' if gone else 'no'} /{pattern}/ on the screen:\n{self.grid.text()}")

    def ended(self):
        if self.status is None:
            pid, status = os.waitpid(self.child, os.WNOHANG)
            self.status = status if pid else None
        return self.status is not None

    def wait_end(self):
        end = time.monotonic() + PATIENCE
        while not self.ended():
            self.read(0.05)
            if time.monotonic() > end:
                raise Failure("it does not end:\n" + self.grid.text())
        while self.read(0):
            pass
        return os.waitstatus_to_exitcode(self.status)

    def close(self):
        if not self.ended():
            os.kill(self.child, signal.SIGKILL)
            os.waitpid(self.child, 0)
        os.close(self.fd)
