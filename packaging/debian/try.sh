#!/bin/sh
# Installs, upgrades, removes and purges packages, as root:  packaging/debian/try.sh OLD.deb NEW.deb
#
# Everything happens in an overlay over the root file system, which only the processes of this script see and which is
# deleted afterwards. systemd is started in it as in a container (package systemd-container). The upgrade happens while
# 300 pictures are uploaded to the service of a user. The first failed step ends the script.
set -eu

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

if [ "${1:-}" != --inside ]; then
    [ $# -eq 2 ] || fail "expected two packages, an older and a newer; received $# arguments"
    [ "$(id -u)" = 0 ] || fail "run this as root: it installs packages"
    command -v systemd-nspawn >/dev/null || fail "install systemd-container; it starts systemd in a copy of this system"
    old=$(readlink -f "$1") new=$(readlink -f "$2") root=$(readlink -f "$(dirname "$0")/../..")
    exec unshare --mount --pid --fork --kill-child --mount-proc sh "$root/packaging/debian/try.sh" --inside "$old" "$new" "$root"
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
cat >"$layer/root/etc/systemd/system/try.service" <<'UNIT'
[Unit]
Wants=dbus.socket systemd-logind.service
After=dbus.socket systemd-logind.service systemd-user-sessions.service
SuccessAction=exit-force
FailureAction=exit-force

[Service]
Type=oneshot
ExecStart=/bin/sh -c 'exec sh /try/steps.sh >/try/output 2>&1'
UNIT

cat >"$layer/root/try/steps.sh" <<'STEPS'
set -eu
fail() { echo "FAILED: $*" >&2; exit 1; }
step() { printf '\n== %s\n' "$*"; }
as_user() { runuser -u tester -- "$@"; }
user_systemctl() { systemctl --user --machine tester@ "$@"; }
wait_ready() {
    curl --silent --retry 50 --retry-delay 1 --retry-all-errors --max-time 60 "http://127.0.0.1:$1/healthz" >/dev/null
}
data=/home/tester/.local/share/imgproc-local
system_data=/var/lib/imgproc-local
export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
cd /
useradd --create-home --shell /bin/sh tester

step "install the older package"
dpkg --install /try/old.deb
imgproc-local --version
as_user imgproc-local keys create --name before --rate-limit 0 --json >/try/key.json
as_user imgproc-local models import /try/project/models/tiny/tiny-text.gguf /try/project/models/tiny/tiny-mmproj.gguf --name tiny

step "run the service of a user without a session, with one job"
loginctl enable-linger tester
user_systemctl enable --now imgproc-local
wait_ready 8484
key=$(sed -n 's/.*"key": "\(.*\)".*/\1/p' /try/key.json)
ask() { curl --silent --show-error --fail --max-time 90 -H "X-API-Key: $key" "$@"; }
ask -H 'Prefer: wait=60' -F image=@/try/project/tests/sample/IMG_4711.jpg -F languages=en \
    http://127.0.0.1:8484/api/v1/images/analyze
ask http://127.0.0.1:8484/api/v1/jobs >/try/jobs-before.json

step "upgrade to the newer package while 300 pictures are uploaded; no job fails, nothing is lost"
as_user imgproc-local process /try/project/tests/sample/IMG_4711.jpg --max-width 160 --out /tmp/small --json >/dev/null
mv "$(find /tmp/small -name '*.jpg')" /try/small.jpg
cat >/try/upload.sh <<UPLOAD
# a client that sends the same upload again until it is accepted, as the documents advise
exec curl --silent --show-error --fail --retry 60 --retry-delay 1 --retry-all-errors --max-time 90 \
    -H "X-API-Key: $key" -H "Idempotency-Key: upload-\$1" -F image=@/try/small.jpg -F languages=en -F format=webp \
    --output /dev/null --write-out '%{http_code}\n' http://127.0.0.1:8484/api/v1/images/process
UPLOAD
seq 300 | xargs -P 4 -n 1 sh /try/upload.sh >/try/uploads.txt 2>/try/retries.txt &
uploads=$!
until [ "$(wc -l </try/uploads.txt)" -ge 60 ]; do sleep 0.2; done
started=$(user_systemctl show --property ActiveEnterTimestampMonotonic imgproc-local)
echo "uploaded before: $(wc -l </try/uploads.txt)"
dpkg --install /try/new.deb
echo "uploaded after: $(wc -l </try/uploads.txt)"
dpkg --verify imgproc-local
[ "$started" != "$(user_systemctl show --property ActiveEnterTimestampMonotonic imgproc-local)" ] ||
    fail "the upgrade did not restart the running service"
wait_ready 8484
wait "$uploads" || fail "an upload was not accepted: $(cat /try/retries.txt)"
[ "$(sort /try/uploads.txt | uniq -c | tr -s ' ')" = " 300 202" ] || fail "uploads: $(sort /try/uploads.txt | uniq -c)"
echo "attempts that were repeated: $(wc -l </try/retries.txt)"
for _ in $(seq 900); do
    jobs=$(as_user imgproc-local doctor | sed -n 's/^ok *jobs *//p')
    case $jobs in *ing*) sleep 1 ;; *) break ;; esac # pending, analyzing, optimizing, converting
done
[ "$jobs" = "301 completed" ] ||
    fail "expected 301 completed jobs, not $jobs: $(ask "http://127.0.0.1:8484/api/v1/jobs?status=failed" | head -c 2000)"
ask "http://127.0.0.1:8484/api/v1/jobs/$(sed 's/.*"job_id":"\([^"]*\)".*/\1/' /try/jobs-before.json)" >/dev/null
as_user imgproc-local models list --json | grep -q '"in_use": true'
user_systemctl stop imgproc-local
as_user imgproc-local verify
as_user imgproc-local doctor

step "run the service of the whole machine, which has its own user, data and settings"
echo 'port = 8499' >>/etc/imgproc-local/config.toml
systemctl enable --now imgproc-local
wait_ready 8499
as_service() { runuser -u imgproc-local -- env IMGPROC_CONFIG=/etc/imgproc-local/config.toml imgproc-local "$@"; }
as_service keys create --name system --rate-limit 0 --json >/try/key.json
key=$(sed -n 's/.*"key": "\(.*\)".*/\1/p' /try/key.json)
as_service models import /try/project/models/tiny/tiny-text.gguf /try/project/models/tiny/tiny-mmproj.gguf --name tiny
systemctl restart imgproc-local
wait_ready 8499
ask -H 'Prefer: wait=60' -F image=@/try/small.jpg -F languages=en -F format=avif \
    http://127.0.0.1:8499/api/v1/images/process
ask 'http://127.0.0.1:8499/api/v1/jobs' | grep -q '"status":"completed"' || fail "the job did not complete"
! journalctl --unit imgproc-local | grep 'less protection' || fail "worker processes can't restrict themselves"
[ "$(stat --format '%U %a' "$system_data" "$system_data/imgproc.db")" = "imgproc-local 700
imgproc-local 600" ] || fail "the data is not private"
[ "$(stat --format '%U %G %a' /etc/imgproc-local/config.toml)" = "root imgproc-local 640" ] ||
    fail "every user can read the settings"
test -L /etc/systemd/system/multi-user.target.wants/imgproc-local.service || fail "it does not start with the system"
systemd-analyze verify --man=no /usr/lib/systemd/system/imgproc-local.service
systemd-analyze security --no-pager imgproc-local.service | tail -1
mkdir -p /run/user/0
XDG_RUNTIME_DIR=/run/user/0 systemd-analyze --user verify --man=no /usr/lib/systemd/user/imgproc-local.service

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
test -e "$data/imgproc.db" && test -e "$system_data/imgproc.db" || fail "the data was deleted"
! systemctl --quiet is-active imgproc-local || fail "the service runs without its program"

step "install again and purge: the users with data are listed"
dpkg --install /try/new.deb >/dev/null
dpkg --purge imgproc-local
test -e "$data/imgproc.db" || fail "the data was deleted"
left=$(find /etc /opt /usr /var -xdev -name '*imgproc-local*' -print)
test "$left" = "$system_data" || fail "left behind: $left"

step "purge with consent: the data is deleted, linked folders are not"
dpkg --install /try/new.deb >/dev/null
as_user mkdir -p /home/tester/pictures /home/tester/.config
as_user ln -s /home/tester/pictures /home/tester/.config/imgproc-local
IMGPROC_PURGE_DATA=yes dpkg --purge imgproc-local
test ! -e "$data" && test ! -e "$system_data" || fail "the data was not deleted"
test -d /home/tester/pictures && test -L /home/tester/.config/imgproc-local || fail "a link was followed"
STEPS
touch "$layer/root/try/output"
tail -f "$layer/root/try/output" &
status=0
# a container may not use Landlock by default, which worker processes need
systemd-nspawn --quiet --boot --register=no --keep-unit --private-network --link-journal=no --console=pipe \
    --system-call-filter="landlock_create_ruleset landlock_add_rule landlock_restrict_self" \
    --directory="$layer/root" -- --show-status=no --unit=try.service || status=$?
sleep 1 # for the last lines
[ "$status" = 0 ] || fail "a step ended with $status"
printf '\nAll steps passed.\n'
