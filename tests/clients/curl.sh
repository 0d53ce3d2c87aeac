#!/bin/sh
# process, poll, download with curl alone. BASE_URL, API_KEY, PICTURE (a JPEG) and OUT (a folder) come from the environment.
set -eu
: "${BASE_URL:?}" "${API_KEY:?}" "${PICTURE:?}" "${OUT:?}"

call() { curl --silent --show-error --fail-with-body --max-time 60 -H "Authorization: Bearer $API_KEY" "$@"; }
# one value of a JSON answer that has it on a line of its own or not: enough for the flat words asked for here
word() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" "$2"; }

call -o "$OUT/dispatch.json" -F "image=@$PICTURE" -F 'languages[]=en' -F 'languages[]=de' -F format=webp \
    "$BASE_URL/images/process"
job_id=$(word job_id "$OUT/dispatch.json")

tries=0
while :; do
    call -o "$OUT/job.json" "$BASE_URL/jobs/$job_id"
    case $(cat "$OUT/job.json") in
        *'"status":"completed"'*) break ;;
        *'"status":"failed"'*) echo "the job failed:" >&2; cat "$OUT/job.json" >&2; exit 1 ;;
    esac
    tries=$((tries + 1))
    [ "$tries" -lt 120 ] || { echo "the job is not final after $tries polls" >&2; exit 1; }
    sleep 0.5
done

image_id=$(sed -n 's/.*"image":{"id":"\([^"]*\)".*/\1/p' "$OUT/job.json")
call -o "$OUT/optimized.jpg" "$BASE_URL/images/$image_id/optimized"
call -o "$OUT/converted.webp" "$BASE_URL/images/$image_id/converted"
