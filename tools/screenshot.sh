#!/usr/bin/env bash
# Takes docs/screen.png: a real session at 120x40 in tmux, drawn by its own /export. The answers follow from the seed, so
# the picture is the same each time but for what is measured: take it on a quiet machine.
#
#   tools/screenshot.sh [OUT.png|OUT.svg]      needs tmux, and for PNG rsvg-convert (Debian: librsvg2-bin)
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

command -v tmux >/dev/null || { echo "screenshot: tmux is needed" >&2; exit 1; }
[ -x cutaway ] || { echo "screenshot: run make first" >&2; exit 1; }

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

mux -f "$work/conf" new-session -d -s s -x 120 -y 40 env LC_ALL=C.UTF-8 INPUTRC=/dev/null XDG_STATE_HOME="$work" \
	XDG_DATA_HOME="$work" ./cutaway chat --theme dark --spec ngram:4 ${ARGS:-}
wait_for 'nothing said yet'
wait_for '● rec'
say "${FIRST:-Explain how rainbows form.}"
wait_for 'TTFT.*0 of 8 slots'
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
say "/export $work/screen.${out##*.} screen"
wait_for 'was drawn in'
mv "$work/screen.${out##*.}" "$out"
mux send-keys -t s C-c C-c
echo "$out"
