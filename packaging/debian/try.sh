#!/bin/sh
# Installs, upgrades, removes and purges packages, as root:  packaging/debian/try.sh OLD.deb NEW.deb
#
# Everything happens in an overlay over the root file system, which only the processes of this script see and which is
# deleted afterwards. Prints what systemd reports about the unit. The first failed step ends the script.
set -eu

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

if [ "${1:-}" != --inside ]; then
    [ $# -eq 2 ] || fail "expected two packages, an older and a newer; received $# arguments"
    [ "$(id -u)" = 0 ] || fail "run this as root: it installs packages"
    old=$(readlink -f "$1") new=$(readlink -f "$2") root=$(readlink -f "$(dirname "$0")/../..")
    exec unshare --mount --pid --fork --kill-child sh "$root/packaging/debian/try.sh" --inside "$old" "$new" "$root"
fi

old=$2 new=$3 root=$4
layer=$(mktemp -d)
mount -t tmpfs tmpfs "$layer"
mkdir "$layer/upper" "$layer/work" "$layer/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$layer/upper,workdir=$layer/work" "$layer/root"
mkdir "$layer/root/try"
cp "$old" "$layer/root/try/old.deb"
cp "$new" "$layer/root/try/new.deb"
mkdir -p "$layer/root/try/project/tests"
cp -R "$root/.ci" "$root/packaging" "$root/models" "$layer/root/try/project/"
cp -R "$root/tests/sample" "$layer/root/try/project/tests/"
mount -t proc proc "$layer/root/proc"
mount --rbind /dev "$layer/root/dev"
mount -t sysfs sysfs "$layer/root/sys"
mount -t tmpfs tmpfs "$layer/root/run"

cat >"$layer/root/try/steps.sh" <<'STEPS'
set -eu
fail() { echo "FAILED: $*" >&2; exit 1; }
step() { printf '\n== %s\n' "$*"; }
as_user() { runuser -u tester -- "$@"; }
stop_service() {
    as_user sh -c 'kill "$(cat /tmp/serve.pid)"'
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        test -e "/proc/$(cat /tmp/serve.pid)" || return 0
        sleep 1
    done
    fail "the service does not stop within 10 seconds"
}
data=/home/tester/.local/share/imgproc-local
export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
cd /
useradd --create-home --shell /bin/sh tester

step "install the older package"
dpkg --install /try/old.deb
imgproc-local --version
as_user imgproc-local keys create --name before --json >/try/key.json
as_user imgproc-local models import /try/project/models/tiny/tiny-text.gguf /try/project/models/tiny/tiny-mmproj.gguf --name tiny

step "run the service as a user, with one job"
as_user sh -c 'imgproc-local serve --no-browser --port 8499 >/tmp/serve.log 2>&1 & echo $! >/tmp/serve.pid'
key=$(sed -n 's/.*"key": "\(.*\)".*/\1/p' /try/key.json)
ask() { curl --silent --show-error --fail --max-time 90 -H "X-API-Key: $key" "$@"; }
ip link set lo up 2>/dev/null || true
curl --silent --retry 50 --retry-delay 1 --retry-connrefused --max-time 60 http://127.0.0.1:8499/healthz >/dev/null
ask -H 'Prefer: wait=60' -F image=@/try/project/tests/sample/IMG_4711.jpg -F languages=en \
    http://127.0.0.1:8499/api/v1/images/analyze
ask http://127.0.0.1:8499/api/v1/jobs >/try/jobs-before.json
stop_service

step "upgrade to the newer package; keys, jobs and the model are still there"
dpkg --install /try/new.deb
dpkg --verify imgproc-local
as_user sh -c 'imgproc-local serve --no-browser --port 8499 >/tmp/serve.log 2>&1 & echo $! >/tmp/serve.pid'
sleep 1
curl --silent --retry 50 --retry-delay 1 --retry-connrefused --max-time 60 http://127.0.0.1:8499/healthz >/dev/null
ask http://127.0.0.1:8499/api/v1/jobs >/try/jobs-after.json
cmp /try/jobs-before.json /try/jobs-after.json
as_user imgproc-local models list --json | grep -q '"in_use": true'
stop_service
as_user imgproc-local doctor

step "verify the unit"
mkdir -p /run/user/0
export XDG_RUNTIME_DIR=/run/user/0
systemd-analyze --user verify --man=no /usr/lib/systemd/user/imgproc-local.service
systemd-analyze --user security --offline=yes --no-pager /usr/lib/systemd/user/imgproc-local.service |
    grep -E '✓|Overall'

step "verify desktop entry, manual page and completion"
if command -v desktop-file-validate >/dev/null; then desktop-file-validate /usr/share/applications/imgproc-local.desktop; fi
if command -v appstreamcli >/dev/null; then
    appstreamcli validate --no-net /usr/share/metainfo/local.imgproc.ImgprocLocal.metainfo.xml
fi
test "$(zcat /usr/share/man/man1/imgproc-local.1.gz | head -1 | cut -c1-4)" = ".TH "
bash -c '. /usr/share/bash-completion/completions/imgproc-local; complete -p imgproc-local'

step "the installed command processes a picture"
/try/project/.ci/installed imgproc-local

step "remove: the program is deleted, the data is not"
dpkg --remove imgproc-local
test ! -e /opt/imgproc-local && test ! -e /usr/bin/imgproc-local || fail "parts of the program are left behind"
test -e "$data/imgproc.db" || fail "the data was deleted"

step "install again and purge: the users with data are listed"
dpkg --install /try/new.deb >/dev/null
dpkg --purge imgproc-local
test -e "$data/imgproc.db" || fail "the data was deleted"
left=$(find /etc /opt /usr /var -xdev -name '*imgproc-local*' -print)
test -z "$left" || fail "left behind: $left"

step "purge with consent: the data is deleted, linked folders are not"
dpkg --install /try/new.deb >/dev/null
as_user mkdir -p /home/tester/pictures /home/tester/.config
as_user ln -s /home/tester/pictures /home/tester/.config/imgproc-local
IMGPROC_PURGE_DATA=yes dpkg --purge imgproc-local
test ! -e "$data" || fail "the data was not deleted"
test -d /home/tester/pictures && test -L /home/tester/.config/imgproc-local || fail "a link was followed"
STEPS
status=0
chroot "$layer/root" sh /try/steps.sh || status=$?
[ "$status" = 0 ] || fail "a step ended with $status"
printf '\nAll steps passed.\n'
