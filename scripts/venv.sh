#!/bin/sh
# Makes .venv hold exactly what requirements.lock says, and the project itself, editable. Does nothing when it does.
set -eu
cd "$(dirname "$0")/.."

fail() {
  echo "error: $1" >&2
  exit 2
}

# a name on the PATH proves nothing: a version manager's shim may exist and fail
usable() {
  "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
  for name in python3.13 python3.12 python3.11 python3 python; do
    if command -v "$name" >/dev/null 2>&1 && usable "$name"; then
      # the interpreter itself, so that the environment does not depend on a shim
      "$name" -c 'import sys; print(sys.executable)'
      return
    fi
  done
}

create() {
  python=$(find_python)
  if command -v uv >/dev/null 2>&1; then
    # without a local Python, uv fetches one
    uv venv --quiet --python "${python:-3.13}" .venv
    return
  fi
  [ -n "$python" ] || fail "imgproc needs Python 3.11 or newer, and neither it nor uv is on the PATH"
  if ! "$python" -c 'import venv, ensurepip' >/dev/null 2>&1; then
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    fail "$python cannot make virtual environments: install its venv module (Debian, Ubuntu: apt install python$version-venv) or uv"
  fi
  "$python" -m venv .venv
}

# somebody who watches sees what is being fetched and how far it is; a log stays short
install() {
  quiet=--quiet
  if [ -t 2 ]; then quiet=; fi
  if command -v uv >/dev/null 2>&1; then
    uv pip sync $quiet --python .venv/bin/python --require-hashes requirements.lock
    uv pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation --editable .
  else
    .venv/bin/python -m pip --version >/dev/null 2>&1 || .venv/bin/python -m ensurepip >/dev/null
    pip='.venv/bin/python -m pip --disable-pip-version-check'
    $pip install $quiet --require-hashes --no-deps -r requirements.lock >&2
    $pip install --quiet --no-deps --no-build-isolation --editable .
  fi
}

wanted() {
  { pwd; cat requirements.lock pyproject.toml; .venv/bin/python -c 'import sys; print(sys.version)'; } | cksum
}

if usable .venv/bin/python && [ "$(cat .venv/.installed 2>/dev/null)" = "$(wanted)" ]; then
  exit 0
fi

# two targets started at the same time must not install at the same time
if command -v flock >/dev/null 2>&1; then
  exec 9<.
  flock 9
  if usable .venv/bin/python && [ "$(cat .venv/.installed 2>/dev/null)" = "$(wanted)" ]; then
    exit 0
  fi
fi

usable .venv/bin/python || { rm -rf .venv; create; }
echo "installing into .venv (about 300 MB the first time) ..." >&2
rm -f .venv/.installed
install
wanted >.venv/.installed
