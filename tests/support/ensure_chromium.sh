#!/bin/sh
# Makes sure that a Chromium is there for the tests of the page in a real browser.
set -eu

for name in chromium chromium-browser google-chrome google-chrome-stable; do
    if command -v "$name" >/dev/null 2>&1; then
        exit 0
    fi
done

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing chromium for the browser tests"
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends chromium
    exit 0
fi

echo "The browser tests need Chromium, and there is none. Install it and run this again:" >&2
echo "  Debian, Ubuntu:  sudo apt-get install chromium" >&2
echo "  Fedora:          sudo dnf install chromium" >&2
echo "  macOS:           brew install --cask chromium" >&2
exit 1
