#!/usr/bin/env python3
"""Every terminal and encoding: the first screen, text beyond ASCII as it is typed, shown and recorded, keys as the
terminal sends them, another size, and how the terminal is left. TAP; Python's standard library and ncurses' tput.

    tests/program/test_terminals.py [NAME …]    only the cases whose name has one of the words
"""
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import termios
import time

import locales
from terminal import Failure, Terminal, width

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.join(ROOT, "cutaway")
TMP = tempfile.TemporaryDirectory(prefix="cutaway-terminals-")
SENTENCE = "zé Größe 月亮 привет naïve 👍"
TYPES = ["linux", "xterm", "xterm-256color", "screen", "screen-256color", "tmux-256color", "vt220", "ansi", "rxvt",
         "foot", "alacritty", "xterm-kitty"]
LOCALES = ["C.UTF-8", "en_US.UTF-8", "de_DE.UTF-8", "C", "en_US.ISO-8859-1", "ru_RU.KOI8-R", "ja_JP.EUC-JP"]
PLAIN = ("xterm-256color", "C.UTF-8")
NO_KEY = {"F1": b"\x1bOP", "F5": b"\x1b[15~"}  # what nearly all send, where terminfo has no such key


def encoding(locale):
    """C says ASCII, but the terminal is one of UTF-8 all the same."""
    coding = locale.rpartition(".")[2].partition("@")[0]
    return {"ISO-8859-1": "latin-1", "KOI8-R": "koi8-r", "EUC-JP": "euc_jp"}.get(coding, "utf-8")


def carried(text, coding):
    """What of a text the encoding can carry."""
    return re.sub(" +", " ", text.encode(coding, "ignore").decode(coding)).strip()


def capability(term, name, flag=False):
    done = subprocess.run(["tput", f"-T{term}", name], capture_output=True, check=False, stdin=subprocess.DEVNULL)
    return not done.returncode if flag else b"" if done.returncode else done.stdout


def key(term, name):
    return capability(term, "k" + name.lower()) or NO_KEY[name]


class Chat(Terminal):
    def __init__(self, term, locale, name, ready=r"\A.* rec$", **env):
        self.term, self.locale, self.file = term, locale, os.path.join(TMP.name, name + ".db")
        self.ascii = "UTF-8" not in locale
        self.env = {"PATH": os.environ["PATH"], "HOME": TMP.name, "XDG_STATE_HOME": TMP.name, "TERM": term, "INPUTRC": "/dev/null",
               **(locales.environment(locale) or {"LC_ALL": locale}), **env}
        super().__init__([PROGRAM, "chat", "--model", os.path.join(TMP.name, "tiny.gguf"), "--greedy",
                          "--max-tokens", "4", "--record", self.file], self.env, encoding=encoding(locale),
                         wraps_at_once=capability(term, "am", True) and not capability(term, "xenl", True))
        self.wait(ready)  # else: the model is open

    def shown(self, text):
        """As the screen must show it: with a stand-in for what the locale has not, or in columns that are not sure."""
        if self.locale == "C":
            return re.sub(r"[^\x00-\x7f]", "?", text)
        return "".join(c if self.encoding == "utf-8" or len(c.encode(self.encoding)) == width(c) else "?" for c in text)

    def wait_prompt(self, text):
        self.wait("^ *you . *" + re.escape(self.shown(text)) + "$")

    def command(self, line, said):
        self.send(line + "\r")
        self.wait(said)

    def quit(self):
        self.send("/quit\r")
        if self.wait_end():
            raise Failure(f"it ended with {self.status}:\n{self.grid.text()}")

    def logged(self, query):
        """The texts that a query finds in the recording, as bytes."""
        db = sqlite3.connect(f"file:{self.file}?mode=ro", uri=True)
        db.text_factory = bytes
        try:
            return [text for text, in db.execute(query)]
        finally:
            db.close()

    def expect_turn(self, text):
        turns = self.logged("SELECT text FROM request ORDER BY seq")
        if turns != [text if isinstance(text, bytes) else text.encode()]:
            raise Failure(f"the recording has {turns}")


def terminal_is_left(chat):
    if termios.tcgetattr(chat.fd) != chat.found:
        raise Failure("the terminal's modes are not what they were")
    if chat.grid.modes - {7, 8, 12, 25}:  # wrapping, repetition, a cursor that may blink
        raise Failure(f"left on: {chat.grid.modes}")
    if chat.raw.count(b"\x1b[>5u") != chat.raw.count(b"\x1b[<u"):
        raise Failure("kitty's keyboard protocol is left on")
    if chat.grid.unknown:
        raise Failure(f"sequences that nobody knows: {chat.grid.unknown}")
    colours = int(capability(chat.term, "colors") or 0)
    styles = {int(n or 0) for sgr in re.findall(rb"\x1b\[([\d;:]*)m", chat.raw) for n in re.split(b"[;:]", sgr)}
    if colours < 256 and styles & {38, 48} or colours < 16 and any(n >= 90 for n in styles) or \
            colours < 8 and styles & set(range(30, 48)):
        raise Failure(f"colours that the terminal has not: {sorted(styles)}")
    text = chat.grid.text()
    if not capability(chat.term, "rmcup") and re.search("F1 explain|you .$", text, re.M):
        raise Failure("the screen is still there:\n" + text)


def session(term, locale):
    name = f"{term}-{locale}"
    chat = Chat(term, locale, name)
    text = carried(SENTENCE, encoding(locale))
    try:
        if chat.ascii and not chat.grid.text().isascii():
            raise Failure("not ASCII:\n" + chat.grid.text())
        for byte in text[:6].encode(encoding(locale)):  # each byte a write of its own, and some a read of its own
            chat.send(bytes([byte]))
            chat.read(0)
        alt = max(i for i, c in enumerate(text) if c > "\x7f")  # Alt with it, or Esc right before it, is that character
        chat.send("\x1b[200~" + text[6:alt] + "\x1b[201~")
        chat.send("\x1b" + text[alt:])
        chat.wait_prompt(text)
        chat.send("\r")
        chat.wait(r"step 4\b")
        chat.send(key(term, "F1"))
        chat.wait("closes")
        chat.send("\x1b")
        chat.wait("closes", gone=True)
        chat.send(key(term, "F5"))
        chat.wait("paused")
        chat.resize(100, 30)
        chat.wait("F1 explain.*\\Z")
        chat.command("/temp 0.7", r"temp is now 0\.7")
        chat.quit()
        chat.expect_turn(text)
        if chat.logged("SELECT value FROM setting WHERE name = 'temp' ORDER BY seq DESC LIMIT 1") != [b"0.7"]:
            raise Failure("the recording has another temperature")
        with open(os.path.join(TMP.name, "cutaway", "history"), encoding="utf-8", errors="replace") as f:
            if text not in f.read().split("\n"):
                raise Failure("the history does not have it as UTF-8")
        terminal_is_left(chat)
    finally:
        chat.close()


def input_in_pieces(chat):
    """a character whose bytes come late, and several at once, as input methods send them"""
    for piece in (b"\xe6", b"\x9c", b"\x88 ", "月亮月亮".encode() + b"\xf0\x9f", b"\x91\x8d"):
        chat.send(piece)
        while chat.read(0.1):
            pass
    chat.wait_prompt("月 月亮月亮👍")
    return "月 月亮月亮👍"


def input_pasted(chat):
    """a paste with line ends, wide characters and a key's bytes in it"""
    chat.send("\x1b[200~写一首关于月亮的诗。\r два 🎉 x\x1b[201~")
    chat.wait("два 🎉 x$")
    chat.send("é")
    chat.wait("два 🎉 xé$")
    return "写一首关于月亮的诗。\n два 🎉 xé"


def input_edited(chat):
    """the cursor and backspace over wide characters and combining marks, words of Alt"""
    chat.send("月亮")
    chat.wait_prompt("月亮")
    start = chat.grid.cell[chat.grid.y].index("月")
    if chat.grid.x != start + 4:
        raise Failure(f"the cursor is at {chat.grid.x} after two wide characters at {start}")
    chat.send("\x02")
    while chat.read(0.1):
        pass
    if chat.grid.x != start + 2:
        raise Failure(f"the cursor is at {chat.grid.x} between two wide characters at {start}")
    chat.send("\x05 noe\u0308l e\u0301")
    chat.wait_prompt("月亮 noe\u0308l e\u0301")
    chat.send("\x7f")  # the e and the mark on it
    chat.wait_prompt("月亮 noe\u0308l")
    chat.send("\x1bb\x1bu")  # Alt-b to the word's begin, Alt-u: upper case
    chat.wait_prompt("月亮 NOE\u0308L")
    return "月亮 NOE\u0308L "


def input_right_to_left(chat):
    """right-to-left text stands in the order in which it is stored"""
    chat.send("שלום עולם مرحبا!")
    chat.wait_prompt("שלום עולם مرحبا!")
    return "שלום עולם مرحبا!"


def input_alt(chat):
    """Alt with what is not ASCII is that character"""
    chat.send("a \x1bé\x1bß")
    chat.wait_prompt("a éß")
    return "a éß"


def input_keys(chat):
    """keys by the sequences that other terminals have for them, and the number pad"""
    chat.send("bc\x1b[1~a\x1bOF\x1bOp\x1bOk\x1b[D\x1bOD\x1b[3~")
    chat.wait_prompt("abc+")
    return "abc+"


def input_slow_key(chat):
    """a function key whose bytes come one by one is one key, if ESCDELAY gives it the time"""
    for byte in key(chat.term, "F1"):
        chat.send(bytes([byte]))
        while chat.read(0.1):
            pass
    chat.wait("closes")
    chat.send(key(chat.term, "F1"))
    chat.wait("closes", gone=True)
    chat.send("x")
    return "x"


def input_unknown_key(chat):
    """a key that nobody knows types nothing"""
    chat.send("a\x1b[15;2~\x1b[57428u\x1b[97;9u\x1b[1;5Pb")
    chat.wait_prompt("ab")
    return "ab"


def input_mouse(chat):
    """no button of a mouse, pressed or released, keeps the screen waiting for a key"""
    for at, event in enumerate(("0;5;23M", "0;5;23m", "2;9;9M", "2;9;9m", "66;9;9M")):
        chat.send("\x1b[<" + event)
        while chat.read(0.2):
            pass
        chat.resize(81 + at, 24)
        chat.wait(r"\A.* rec$")
    chat.send("x")
    return "x"


def input_kitty(chat):
    """kitty's keyboard protocol, where the terminal says that it has it"""
    if b"\x1b[?u" not in chat.raw or b"\x1b[>5u" in chat.raw:
        raise Failure("it is not asked for, or not waited for")
    chat.send("\x1b[?0u")
    while b"\x1b[>5u" not in chat.raw:
        chat.read(1)
    chat.send("bx\x1b[104;5u\x1b[13;2uc\x1b[100:68;4u\x1b[1;129D\x1b[57400u")  # Ctrl-H, Shift-Enter, Alt-D, the pad
    chat.wait(r"b\n +1c$")
    chat.send("\x1b[1092::97;5u\x1b[233;3u\x1b[27u")  # Ctrl-A of a Russian keyboard, Alt-é, Esc
    chat.wait(r"you . éb\n +1c$")
    return "éb\n1c"


def input_link(chat):
    """a reference to a paper is a hyperlink, and the cursor where it was"""
    chat.send("月 arXiv:2211.17192")
    chat.wait_prompt("月 arXiv:2211.17192")
    link = rb"\x1b\]8;;https://arxiv.org/abs/2211.17192\x1b\\"
    if not re.search(link + rb"(\x1b[^\]].{0,9})?arXiv:2211.17192(\x1b[^\]].{0,9})?\x1b\]8;;\x1b\\", chat.raw):
        raise Failure(f"no link in {chat.raw[-900:]}")
    row = "".join(chat.grid.cell[chat.grid.y])
    if chat.grid.x != len(row.rstrip()) + 1:  # 月 has two columns
        raise Failure(f"the cursor is at {chat.grid.x} in {row!r}")
    return "月 arXiv:2211.17192"


def input_invalid(chat):
    """bytes that are no UTF-8 are kept, shown as such, and harm no neighbour"""
    chat.send(b"a\xffb \xc3 \xe6\x9cz\xc3\xa9")
    chat.wait("\N{REPLACEMENT CHARACTER}b .*zé$")
    return b"a\xffb \xc3 \xe6\x9cz\xc3\xa9"


def input_joined(chat):
    """emoji joined by U+200D: one after the other, as terminals have them, with the joiner unseen"""
    chat.send("👩\u200d💻 x")
    chat.wait_prompt("👩💻 x")
    return "👩\u200d💻 x"


def input_commands(chat):
    """text beyond ASCII in what commands take: breakpoints, searches, names"""
    chat.command("/break text = 'é月'", "é月")
    chat.send("é")  # closes the list, if one is open, and is typed
    chat.send("\x15/break\r")
    chat.wait("text = 'é月'")
    chat.send("\x15/find text = 'é月'\r")
    chat.wait("no step that way for which text = 'é月' holds")
    chat.send("/tempé\r")
    chat.wait("/tempé")
    chat.send("👍")
    chat.wait_prompt("👍")
    return "👍"


def input_found(chat):
    """Ctrl-R finds what is beyond ASCII"""
    chat.send("/temp né\r")
    chat.wait("temp né: a number")
    chat.send("\x12é")
    chat.wait("reverse-i-search.*/temp né$")
    chat.send("\x07ü")
    chat.wait_prompt("ü")
    return "ü"


INPUTS = [f for name, f in list(globals().items()) if name.startswith("input_")]


def typed(how):
    chat = Chat(*PLAIN, how.__name__, ESCDELAY="3000" if how is input_slow_key else "")
    try:
        text = how(chat)
        chat.send("\r")
        chat.wait(r"step \d")
        chat.quit()
        chat.expect_turn(text)
        terminal_is_left(chat)
    finally:
        chat.close()


def replayed(term, locale):
    """A replay's prompt takes what a chat's does."""
    chat = Chat(term, locale, "replayed")
    try:
        chat.send("é月\r")
        chat.wait(r"step 4\b")
        chat.quit()
    finally:
        chat.close()
    replay = Terminal([PROGRAM, "replay", chat.file], chat.env)
    try:
        replay.wait(r"step \d of 4")
        replay.send("/")
        replay.wait("^.*› /$")
        replay.send("find text = 'é月'\r")
        replay.wait("no step that way for which text = 'é月' holds")
        replay.send("q")
        if replay.wait_end():
            raise Failure(replay.grid.text())
    finally:
        replay.close()


def crashed(term, locale):
    """A crash leaves the terminal as quitting does."""
    chat = Chat(term, locale, f"crash-{term}")
    try:
        os.kill(chat.child, signal.SIGSEGV)
        if chat.wait_end() != -signal.SIGSEGV:
            raise Failure(f"it ended with {chat.status}")
        terminal_is_left(chat)
        if "$<" in chat.grid.text():  # padding of terminfo's
            raise Failure(chat.grid.text())
    finally:
        chat.close()


def early(term, locale):
    """What is said to a command stays when the model is there."""
    chat = Chat(term, locale, "early", ready="^ *you ")
    try:
        chat.send("/temp né\r")
        chat.wait(r"\A.* rec$")
        chat.wait("/temp né: a number")
        chat.command("/find text = 'é'", "no step that way")
    finally:
        chat.close()
    chat = Chat(term, locale, "earlier", ready="^ *you ")
    try:
        chat.send("/find text = 'é'\r")
        chat.wait("the model is not there yet|no step that way")  # it may be there by then
    finally:
        chat.close()


def helped(term, locale):
    """/help has the settings as they stand, to the last word."""
    chat = Chat(term, locale, "helped")
    try:
        chat.resize(160, 260)
        chat.send("zé\r")
        chat.wait(r"step 4\b")
        chat.send("/roof measure\r")
        chat.wait(r"roof:\s+measured")
        chat.send("/help roof\r")
        chat.wait("F1 explains")
        chat.send("\x1bOP")
        chat.wait(r"now +[\d.]+ GB/s, best of \d+ readings? from [\d.]+, the last after step \d+".replace(" ", r"\s+"))
    finally:
        chat.close()


def uninstalled(locale):
    """A locale that is not installed says the terminal's encoding in its name."""
    chat = Chat(PLAIN[0], locale, "uninstalled-" + locale)
    try:
        chat.send("zé")
        chat.wait_prompt("zé")
        chat.send("\r")
        chat.wait(r"step 4\b")
        chat.quit()
        chat.expect_turn("zé")
    finally:
        chat.close()


def any_size(term, locale):
    """A terminal that says it is larger than any is drawn in part, and the program obeys as ever."""
    chat = Chat(term, locale, "size")
    try:
        chat.grid.write = lambda text: None
        drawn = len(chat.raw)
        chat.size(chat.fd, 30000, 30000)
        end = time.monotonic() + 60
        while len(chat.raw) == drawn and time.monotonic() < end:
            chat.read(1)
        os.kill(chat.child, signal.SIGTERM)
        if len(chat.raw) == drawn or chat.wait_end():
            raise Failure(f"{len(chat.raw) - drawn} bytes were drawn, and it ended with {chat.status}")
    finally:
        chat.close()


def cases():
    for how in INPUTS:
        yield f"typed: {how.__doc__}", typed, (how,)
    for term in TYPES:
        yield f"session {term} {PLAIN[1]}", session, (term, PLAIN[1])
    for locale in ("tlh_XX.UTF-8", "tlh_XX.ISO-8859-1@x"):
        yield f"a locale that is not installed: {locale}", uninstalled, (locale,)
    yield "a replay", replayed, PLAIN
    yield "a command before the model is there", early, PLAIN
    yield "help with a long value", helped, PLAIN
    yield "a terminal of 30,000 columns and lines", any_size, PLAIN
    for term in ("linux", "vt100", PLAIN[0]):
        yield f"a crash: {term}", crashed, (term, PLAIN[1])
    for i, locale in enumerate(LOCALES[1:]):
        for term in (PLAIN[0], TYPES[i % 2 * 6]):  # linux, vt220
            yield f"session {term} {locale}", session, (term, locale)


def cannot(args):
    """Why this machine cannot try it, or None."""
    term, locale = args if len(args) == 2 else PLAIN  # what is typed, and what is not installed
    if subprocess.run(["infocmp", term], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode:
        return f"terminfo has no {term} (package ncurses-term)"
    return None if locales.environment(locale) else f"there are no sources for {locale} (package locales)"


def main():
    chosen = [case for case in cases() if not sys.argv[1:] or any(word in case[0] for word in sys.argv[1:])]
    subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), os.path.join(TMP.name, "tiny.gguf")], check=True)
    failed = 0
    print(f"1..{len(chosen)}")
    for i, (name, test, args) in enumerate(chosen, 1):
        why = cannot(args)
        try:
            if not why:
                test(*args)
            print(f"ok {i} - {name}" + (f" # SKIP {why}" if why else ""))
        except Failure as e:
            failed += 1
            print(f"not ok {i} - {name}\n" + "\n".join("# " + line for line in str(e).split("\n")))
        sys.stdout.flush()
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
