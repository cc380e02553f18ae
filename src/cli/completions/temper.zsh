#compdef temper
# SPDX-License-Identifier: Apache-2.0
# zsh: what temper --complete offers (src/cli/complete.h).
_temper() {
  local -a offered meanings
  local line files
  offered=("${(@f)$("${(Q)words[1]/#\~/$HOME}" --complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
  (( ${#offered} )) || return 1
  files=$offered[1]
  for line in "${(@)offered[2,-1]}"; do
    [[ -n $line ]] && meanings+=("${${line%%$'\t'*}//:/\\:}${${line#*$'\t'}:+:${line#*$'\t'}}")
  done
  local found=1
  if (( ${#meanings} )); then
    if [[ ${#meanings} -eq 1 && ${meanings[1]%%:*} == *= ]]; then _describe -t values value meanings -S '' && found=0
    else _describe -t values value meanings && found=0; fi
  fi
  [[ $files == - ]] && return found
  compset -P '*='
  case $files in
    /) _files -/ && found=0 ;;
    '*') _files && found=0 ;;
    *) _files -g "*(${(j:|:)${(@)${=files}}})" && found=0 ;;
  esac
  return found
}
_temper "$@"
