#!/bin/sh
# Makes imgproc-local.app and a disk image from a one-folder build, on macOS:  packaging/macos/bundle.sh DIST
#
# DIST is the folder that build/freeze.py wrote. The results are written to it. Needs `python3` with pyvips for the icon.
#   SIGN_IDENTITY    keychain identity to sign with; without it the signature is ad hoc: other Macs ask before opening the app
#   NOTARY_PROFILE   profile of `xcrun notarytool store-credentials` with which Apple notarises the image
set -eu

[ $# -eq 1 ] || {
    echo "bundle.sh: expected one argument, the folder that build/freeze.py wrote; received $#" >&2
    exit 1
}
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
[ -x "$1/imgproc-local/imgproc-local" ] || {
    echo "bundle.sh: there is no $1/imgproc-local/imgproc-local; run python build/freeze.py --out $1 first" >&2
    exit 1
}
dist=$(CDPATH='' cd -- "$1" && pwd)
version=$("$dist/imgproc-local/imgproc-local" --version | sed 's/.* //')
app=$dist/imgproc-local.app
image=$dist/imgproc-local-$version-macos-$(uname -m).dmg

rm -rf "$app" "$dist/image"
mkdir -p "$app/Contents/MacOS" "$app/Contents/Resources"
# macOS expects three integers
sed "s/@VERSION@/${version%%.dev*}/" "$here/Info.plist" >"$app/Contents/Info.plist"
plutil -lint "$app/Contents/Info.plist" "$here/local.imgproc.ImgprocLocal.plist"
cp "$here/open-page" "$app/Contents/MacOS/open-page"
chmod 755 "$app/Contents/MacOS/open-page"
cp -R "$dist/imgproc-local" "$app/Contents/Resources/imgproc-local"
cp -R "$dist/imgproc-local-licences" "$dist/imgproc-local.cdx.json" "$app/Contents/Resources/"
cp "$here/local.imgproc.ImgprocLocal.plist" "$app/Contents/Resources/"
python3 "$here/../icons.py" "$dist/image"
mv "$dist/image/imgproc-local.icns" "$app/Contents/Resources/"
rm -rf "$dist/image"

# sign from the inside out: every object, the program, then the bundle
identity=${SIGN_IDENTITY:--}
sign() {
    if [ "$identity" = - ]; then
        codesign --force --sign - "$@"
    else
        codesign --force --sign "$identity" --timestamp --options runtime "$@"
    fi
}
find "$app/Contents/Resources/imgproc-local/_internal" -type f | while read -r file; do
    case $(file -b "$file") in
    Mach-O*) sign "$file" ;;
    esac
done
# libffi creates machine code for callbacks at run time, which the hardened runtime refuses without these entitlements
sign --entitlements "$here/entitlements.plist" "$app/Contents/Resources/imgproc-local/imgproc-local"
sign "$app"
codesign --verify --deep --strict "$app"

mkdir "$dist/image"
cp -R "$app" "$dist/image/"
ln -s /Applications "$dist/image/Applications"
hdiutil create -volname imgproc-local -srcfolder "$dist/image" -ov -format UDZO "$image"
rm -rf "$dist/image"
if [ "$identity" != - ]; then
    codesign --sign "$identity" --timestamp "$image"
fi
if [ -n "${NOTARY_PROFILE:-}" ]; then
    xcrun notarytool submit "$image" --keychain-profile "$NOTARY_PROFILE" --wait --timeout 30m
    xcrun stapler staple "$image"
fi
echo "$image"
