"""Results of a script as TAP. Not a suite itself."""
import os

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.join(ROOT, "cutaway")
count = failures = 0


def sample(cases, n):
    """All of the cases in `tests/run --all`; in a run of the day n of them, spread over all."""
    cases = list(cases)
    if os.environ.get("CUTAWAY_TEST_ALL") or len(cases) <= n:
        return cases
    return [cases[i * len(cases) // n] for i in range(n)]


def check(name, good, more=""):
    """more: told, as far as 20 lines of it, if it is not good."""
    global count, failures
    count += 1
    failures += not good
    print(f"{'ok' if good else 'not ok'} {count} - {name}", flush=True)
    if not good:
        for line in str(more).splitlines()[:20]:
            print("# " + line[:2000])


def skip(name, why):
    global count
    count += 1
    print(f"ok {count} - {name} # SKIP {why}", flush=True)


def finish():
    """The plan; True, a status other than 0, if a check failed."""
    print(f"1..{count}")
    return failures > 0
