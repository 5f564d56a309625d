"""Locales for suites, made once without root from the sources of Debian's package `locales`. Not a suite itself."""
import functools
import os
import shutil
import subprocess
import tempfile

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "build", "tests", "locales")


@functools.lru_cache(None)
def environment(name):
    """The variables that choose a locale such as de_DE.UTF-8; None if this machine can neither find nor make it."""
    if name in ("C", "C.UTF-8"):
        return {"LC_ALL": name}
    place = os.path.join(FOLDER, name)
    if not os.path.exists(place):
        source, charset = name.split(".")
        os.makedirs(FOLDER, exist_ok=True)
        folder = tempfile.mkdtemp(dir=FOLDER)
        try:
            subprocess.run(["localedef", "-i", source, "-f", charset, os.path.join(folder, name)], check=True,
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            os.rename(os.path.join(folder, name), place)
        except (OSError, subprocess.CalledProcessError):
            if not os.path.exists(place):
                return None
        finally:
            shutil.rmtree(folder)
    return {"LC_ALL": name, "LOCPATH": FOLDER}
