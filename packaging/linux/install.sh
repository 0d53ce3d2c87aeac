#!/bin/sh
# Installs imgproc-local on any Linux, from the folder that its archive was unpacked to. No network is needed.
#
#   ./install.sh                     for this user, below ~/.local
#   ./install.sh --prefix /opt       for all users, as root: /opt/bin, /opt/lib and /opt/share
#   ./install.sh --uninstall         takes away what it installed (with the same --prefix); data stays
#
# An installed version is replaced at once or not at all; a running service of this user is restarted.
set -eu

name=imgproc-local
unit=$name.service
prefix=${HOME:+$HOME/.local}
action=install

fail() {
    printf 'install.sh: %s\n' "$*" >&2
    exit 1
}

usage() {
    sed -n '2,8s/^# \{0,1\}//p' "$0"
}

service_runs() {
    command -v systemctl >/dev/null 2>&1 && systemctl --user --quiet is-active "$unit" 2>/dev/null
}

# Deletes the files that the list names, and the folders that are empty then.
take_away() {
    while IFS= read -r file; do
        rm -f "$prefix/$file"
        folder=$(dirname "$prefix/$file")
        while [ "$folder" != "$prefix" ] && rmdir "$folder" 2>/dev/null; do
            folder=$(dirname "$folder")
        done
    done <"$1"
}

# Writes file $3 to $4 with $2 in the place of $1 where a line begins with that, or ends in it as a value.
fill_in() {
    new=$(printf '%s' "$2" | sed 's/[\\&#]/\\&/g')
    sed "/^Try/d; s#^\(ExecStart=\)\{0,1\}$1#\1$new#" "$3" >"$4.new"
    mv "$4.new" "$4"
}

install_all() {
    here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
    for part in "$name/$name" SHA256SUMS share "$unit"; do
        [ -e "$here/$part" ] || fail "expected $part beside this script, as it comes in the archive; it is not there"
    done
    command -v sha256sum >/dev/null 2>&1 || fail "expected sha256sum, to see whether the archive is whole; there is none"
    (cd "$here" && sha256sum --quiet --strict -c SHA256SUMS >&2) || fail "the archive is damaged; nothing was installed"

    mkdir -p "$lib" "$prefix/bin" || fail "expected a prefix that can be written; $prefix can't (--prefix names another)"
    if [ -e "$prefix/bin/$name" ] && [ ! -L "$prefix/bin/$name" ]; then
        fail "expected no $prefix/bin/$name, or a link; another program's file is there. Remove it, or use --prefix"
    fi
    # a complete copy first: until the two renames below, what is installed stays as it is
    rm -rf "$lib/$name.new" "$lib/$name.old"
    cp -R "$here/$name" "$lib/$name.new"
    "$lib/$name.new/$name" --version >/dev/null || fail "the program does not run here; nothing was installed"
    if [ -e "$lib/$name" ]; then
        mv "$lib/$name" "$lib/$name.old"
    fi
    mv "$lib/$name.new" "$lib/$name"
    rm -rf "$lib/$name.old"
    ln -sf "$lib/$name/$name" "$prefix/bin/$name"

    (cd "$here/share" && find . -type f) | sed 's#^\./#share/#' | sort >"$list.new"
    echo "share/systemd/user/$unit" >>"$list.new"
    echo "bin/$name" >>"$list.new"
    if [ -e "$list" ]; then
        # what an older version had and this one has not
        sort "$list.new" -o "$list.new"
        sort "$list" | comm -23 - "$list.new" >"$list.gone"
        take_away "$list.gone"
        rm "$list.gone"
    fi
    mkdir -p "$prefix/share/systemd/user"
    cp -R "$here/share/." "$prefix/share/"
    # in paths, % has a meaning to systemd and to the desktop
    path=$(printf '%s' "$lib/$name/$name" | sed 's/%/%%/g')
    fill_in '"@PROGRAM@"' "\"$path\"" "$here/$unit" "$prefix/share/systemd/user/$unit"
    path=$(printf '%s' "$prefix/bin/$name" | sed 's/%/%%/g')
    entry=share/applications/$name.desktop
    fill_in "Exec=$name" "Exec=\"$path\"" "$here/$entry" "$prefix/$entry"
    mv "$list.new" "$list"

    echo "Installed $("$prefix/bin/$name" --version) in $prefix."
    if service_runs; then
        if systemctl --user daemon-reload && systemctl --user restart "$unit"; then
            echo "The running service was restarted."
        else
            echo "The running service could not be restarted: systemctl --user restart $unit" >&2
        fi
    fi
    case ":${PATH:-}:" in
    *":$prefix/bin:"*) echo "Start it with: $name serve" ;;
    *) echo "Start it with: $prefix/bin/$name serve   ($prefix/bin is not on PATH)" ;;
    esac
    echo "At every login: systemctl --user enable --now \"$prefix/share/systemd/user/$unit\""
}

uninstall() {
    [ -e "$list" ] || fail "expected an installation in $prefix; there is none (--prefix names another)"
    if service_runs; then
        systemctl --user stop "$unit" || fail "the running service can't be stopped; nothing was taken away"
    fi
    # only what this script linked: the link may be another installation's by now
    if [ "$(readlink "$prefix/bin/$name" || true)" != "$lib/$name/$name" ]; then
        grep -v "^bin/" "$list" >"$list.new" || true
        mv "$list.new" "$list"
    fi
    mv "$list" "$lib/$name/.installed"
    take_away "$lib/$name/.installed"
    rm -rf "${lib:?}/$name"
    rmdir "$lib" "$prefix/lib" 2>/dev/null || true
    echo "imgproc-local is gone from $prefix. Keys, pictures, models and settings stay: the data folder"
    echo "is ~/.local/share/$name unless set otherwise, the settings are in ~/.config/$name."
}

while [ $# -gt 0 ]; do
    case $1 in
    --prefix)
        [ $# -ge 2 ] || fail "expected a folder after --prefix"
        prefix=$2
        shift
        ;;
    --prefix=*) prefix=${1#--prefix=} ;;
    --uninstall) action=uninstall ;;
    -h | --help)
        usage
        exit 0
        ;;
    *) fail "expected --prefix DIR, --uninstall or --help; $1 came" ;;
    esac
    shift
done
case $prefix in
*[\"\\\`\'\$]* | *'
'*) fail "expected a folder without quotes, backslashes, dollar signs and line ends, which systemd refuses; $prefix came" ;;
/*) ;;
'') fail "expected HOME, or a folder after --prefix" ;;
*) fail "expected a folder that begins with /, for --prefix; $prefix came" ;;
esac
lib=$prefix/lib/$name
list=$lib/installed.txt
case $action in
install) install_all ;;
uninstall) uninstall ;;
esac
