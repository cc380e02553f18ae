# SPDX-License-Identifier: Apache-2.0
# fish: what temper --complete offers (src/cli/complete.h).
function __temper_complete
    set -l words (commandline -opc)
    set -l typed (commandline -ct)
    set -l program $words[1]
    set -e words[1]
    set -l offered ($program --complete $words "$typed" 2>/dev/null)
    or return
    set -l files $offered[1]
    set -e offered[1]
    set -q offered[1]; and printf '%s\n' $offered
    switch $files
        case -
        case /
            __fish_complete_directories "$typed"
        case '\*'
            __fish_complete_path "$typed"
        case '.*'
            # Where no file has such an ending, any may be meant.
            set -l paths (__fish_complete_path "$typed")
            set -l endings (string replace -a . '\\.' -- $files | string replace -a ' ' '|')
            string match -r -- "^.*(?:/|$endings)(?:\t.*)?\$" $paths
            or printf '%s\n' $paths
    end
end
complete -c temper -f -a '(__temper_complete)'
