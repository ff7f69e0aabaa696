#!/bin/sh
# Makes the repository that the plan works on: a copy of start/ in shop/, with one commit. Running it again starts over.
set -e
cd "$(dirname "$0")"
rm -rf shop
cp -r start shop
cd shop
git init -q -b main
git add .
git -c user.name=Ada -c user.email=ada@example.org commit -q -m "A price that is wrong"
echo "a repository with $(git rev-list --count HEAD) commit in $PWD"
