# Shared by the scripts: where things are, how to say things, how to build. Source it, do not run it.
# shellcheck shell=bash disable=SC2034

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
preset="${PLIMSOLL_PRESET:-release}"
build_dir="$root/build/$preset"
jobs="${PLIMSOLL_JOBS:-$(nproc)}"
plimsoll="$build_dir/plimsoll"

say() { printf '\n== %s\n' "$*"; }

die() {
  printf 'error: %s\n' "$1" >&2
  [ -z "${2:-}" ] || printf 'hint: %s\n' "$2" >&2
  exit 1
}

# Runs a command as root: directly, or through sudo.
as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    die "this needs root: $*" "run it as root, or install sudo"
  fi
}

is_installed() {
  [ "$(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# Configures and builds everything (or the targets named) under the preset.
configure_and_build() {
  say "configure ($preset)"
  (cd "$root" && cmake --preset "$preset")
  say "build"
  local target_arguments=()
  [ $# -eq 0 ] || target_arguments=(--target "$@")
  cmake --build "$build_dir" --parallel "$jobs" "${target_arguments[@]}"
}
