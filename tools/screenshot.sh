#!/usr/bin/env bash
# Takes docs/screen.png: a real session at 120x40 in tmux, drawn by tools/ansi2png.py. The answers follow from
# the seed, so the picture is the same each time but for what is measured: take it on a quiet machine.
#
#   tools/screenshot.sh [OUT.png]      needs tmux, tic, python3 with Pillow, and the DejaVu fonts
#
# The picture is taken when MOMENT is seen on the screen after the second question (a pattern of grep).
set -euo pipefail
cd "$(dirname "$0")/.."

out=${1:-docs/screen.png}
moment=${MOMENT:-✓droplets}
work=$(mktemp -d)
socket=cutaway-screenshot-$$
mux() { tmux -L "$socket" "$@"; }
trap 'mux kill-server 2>/dev/null || true; rm -rf "$work"' EXIT

for need in tmux tic python3; do
	command -v "$need" >/dev/null || { echo "screenshot: $need is needed" >&2; exit 1; }
done
[ -x cutaway ] || { echo "screenshot: run make first" >&2; exit 1; }

# The terminal types that come with a system seldom say that they have all colours.
cat >"$work/info" <<'INFO'
tmux-rgb|tmux with direct colour,
	RGB, colors#0x1000000, pairs#0x7fff,
	setab=\E[%?%p1%{8}%<%t4%p1%d%e48;2;%p1%{65536}%/%d;%p1%{256}%/%{255}%&%d;%p1%{255}%&%d%;m,
	setaf=\E[%?%p1%{8}%<%t3%p1%d%e38;2;%p1%{65536}%/%d;%p1%{256}%/%{255}%&%d;%p1%{255}%&%d%;m,
	use=tmux-256color,
INFO
tic -x -o "$work/terminfo" "$work/info"
printf 'set -g status off\nset -g escape-time 0\n' >"$work/conf"

screen() { mux capture-pane -p -t s; }
shows() { screen | tr -s ' \n' ' ' | grep -q -- "$1"; }
wait_for() { # PATTERN: at most a minute
	for _ in $(seq 1200); do
		if shows "$1"; then return; fi
		sleep 0.05
	done
	echo "screenshot: the screen never showed '$1'" >&2
	exit 1
}
say() {
	mux send-keys -t s -l "$1"
	mux send-keys -t s Enter
}

mux -f "$work/conf" new-session -d -s s -x 120 -y 40 env TERM=tmux-rgb TERMINFO="$work/terminfo" \
	TERMINFO_DIRS=/etc/terminfo:/lib/terminfo:/usr/share/terminfo LC_ALL=C.UTF-8 INPUTRC=/dev/null \
	XDG_STATE_HOME="$work" XDG_DATA_HOME="$work" ./cutaway chat --theme dark --spec ngram:4 ${ARGS:-}
wait_for 'nothing said yet'
wait_for '● rec'
say "${FIRST:-Explain how rainbows form.}"
wait_for 'first token.*0 of 8 slots'
# Held as soon as it runs, and stepped to the moment: an answer takes less than a second.
mux send-keys -t s -l "${QUESTION:-Now say it in two sentences.}" \; send-keys -t s Enter \; \
	send-keys -t s -l '/load 3' \; send-keys -t s Enter F5
wait_for '‖ paused'
for _ in $(seq 80); do
	if shows "$moment"; then break; fi
	mux send-keys -t s F10
	sleep 0.15
done
shows "$moment" || { echo "screenshot: '$moment' never came" >&2; exit 1; }
typed=${TYPED:-And why are they curved}
mux send-keys -t s -l "$typed"
wait_for "you › $typed"
mux send-keys -t s F5
while shows '‖ paused'; do :; done
mux capture-pane -e -p -t s >"$work/screen"
python3 tools/ansi2png.py "$out" --cols 120 <"$work/screen"
mux send-keys -t s C-c C-c
echo "$out"
