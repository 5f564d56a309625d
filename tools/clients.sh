#!/usr/bin/env bash
# Installs clients of OpenAI's interface that were written elsewhere, for tests/program/test_clients.py: into
# build/clients, once.
set -euo pipefail
cd "$(dirname "$0")/.."
[ ! -e build/clients/.whole ] || exit 0
rm -rf build/clients
python3 -m venv build/clients
build/clients/bin/pip install --quiet --disable-pip-version-check openai==3.54.0 llm==0.36 langchain-openai==1.6.7 langchain-core==1.6.13 anthropic==2.14.0
touch build/clients/.whole
