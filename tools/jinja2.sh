#!/usr/bin/env bash
# Installs jinja2, for tests/program/test_jinja.py: into build/jinja2, once.
set -euo pipefail
cd "$(dirname "$0")/.."
[ ! -e build/jinja2/.whole ] || exit 0
rm -rf build/jinja2
python3 -m venv build/jinja2
build/jinja2/bin/pip install --quiet --disable-pip-version-check jinja2==3.1.6
touch build/jinja2/.whole
