#!/bin/sh
# Installs imgproc-local on any Linux, from the unpacked archive. No network is needed.
#
#   ./install.sh                     for this user, below ~/.local
#   ./install.sh --prefix /opt       for all users, as root: /opt/bin, /opt/lib and /opt/share
#   ./install.sh --uninstall         removes what it installed (give the same --prefix), but no data
#
# An installed version is replaced completely or not at all. If this user's service is running, it is restarted.
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

# remove_files LIST: delete the files that are listed in the file LIST, and the folders that are empty afterwards
remove_files() {
    while IFS= read -r file; do
        rm -f "$prefix/$file"
        folder=$(dirname "$prefix/$file")
        while [ "$folder" != "$prefix" ] && rmdir "$folder" 2>/dev/null; do
            folder=$(dirname "$folder")
        done
    done <"$1"
}

# fill_in OLD NEW SOURCE TARGET: write SOURCE to TARGET, with OLD replaced by NEW at the start of lines and after ExecStart=,
# and without the line TryExec=, which would hide the entry of a program that is not on PATH
fill_in() {
    new=$(printf '%s' "$2" | sed 's/[\\&#]/\\&/g')
    sed "/^Try/d; s#^\(ExecStart=\)\{0,1\}$1#\1$new#" "$3" >"$4.new"
    mv "$4.new" "$4"
}

install_all() {
    here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
    for part in "$name/$name" SHA256SUMS share "$unit"; do
        [ -e "$here/$part" ] || fail "expected $part beside this script, as in the archive; it is missing"
    done
    command -v sha256sum >/dev/null 2>&1 || fail "install sha256sum (coreutils); it checks that the archive is complete"
    (cd "$here" && sha256sum --quiet --strict -c SHA256SUMS >&2) || fail "the archive is damaged; nothing was installed"

    mkdir -p "$lib" "$prefix/bin" || fail "$prefix can't be written to; give another folder with --prefix"
    if [ -e "$prefix/bin/$name" ] && [ ! -L "$prefix/bin/$name" ]; then
        fail "$prefix/bin/$name is a file of another program. Remove it, or give another folder with --prefix"
    fi
    # copy the whole program first: the installed version is not changed before the two renames below
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
        # remove the files of the older version that this version does not have
        sort "$list.new" -o "$list.new"
        sort "$list" | comm -23 - "$list.new" >"$list.gone"
        remove_files "$list.gone"
        rm "$list.gone"
    fi
    mkdir -p "$prefix/share/systemd/user"
    cp -R "$here/share/." "$prefix/share/"
    # % in paths has a special meaning in units and desktop entries
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
            echo "The running service could not be restarted. Restart it with: systemctl --user restart $unit" >&2
        fi
    fi
    case ":${PATH:-}:" in
    *":$prefix/bin:"*) echo "Start it with: $name serve" ;;
    *) echo "Start it with: $prefix/bin/$name serve   ($prefix/bin is not on PATH)" ;;
    esac
    echo "At every login: systemctl --user enable --now \"$prefix/share/systemd/user/$unit\""
}

uninstall() {
    [ -e "$list" ] || fail "there is no installation in $prefix; give the folder of the installation with --prefix"
    if service_runs; then
        systemctl --user stop "$unit" || fail "the running service can't be stopped; nothing was removed"
    fi
    # the link in bin/ may have been replaced by another installation
    if [ "$(readlink "$prefix/bin/$name" || true)" != "$lib/$name/$name" ]; then
        grep -v "^bin/" "$list" >"$list.new" || true
        mv "$list.new" "$list"
    fi
    mv "$list" "$lib/$name/.installed"
    remove_files "$lib/$name/.installed"
    rm -rf "${lib:?}/$name"
    rmdir "$lib" "$prefix/lib" 2>/dev/null || true
    echo "imgproc-local was removed from $prefix. Keys, pictures, models and settings were not removed: by default, the"
    echo "data folder is ~/.local/share/$name, and the settings are in ~/.config/$name."
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
    *) fail "expected --prefix DIR, --uninstall or --help; received $1" ;;
    esac
    shift
done
case $prefix in
*[\"\\\`\'\$]* | *'
'*) fail "expected a folder without quotes, backslashes, dollar signs and line ends, which systemd refuses; received $prefix" ;;
/*) ;;
'') fail "expected a folder after --prefix, or HOME to be set" ;;
*) fail "expected a folder that begins with / after --prefix; received $prefix" ;;
esac
lib=$prefix/lib/$name
list=$lib/installed.txt
case $action in
install) install_all ;;
uninstall) uninstall ;;
esac
