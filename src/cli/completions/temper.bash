# SPDX-License-Identifier: Apache-2.0
# bash: what temper --complete offers (src/cli/complete.h).
_temper() {
  local rest=${COMP_LINE:0:COMP_POINT} words=() word i offered files value ending path typed front
  # Bash divides words at = and : as well; the program takes them whole.
  for ((i = 0; i <= COMP_CWORD; i++)); do
    [[ $i -eq 0 || $rest == [[:blank:]]* ]] && words+=("")
    rest=${rest#"${rest%%[![:blank:]]*}"}
    word=${COMP_WORDS[i]}
    [[ $i -eq $COMP_CWORD ]] && word=$rest
    words[${#words[@]}-1]+=$word
    rest=${rest#"$word"}
  done
  COMPREPLY=()
  mapfile -t offered < <("${words[0]/#\~/$HOME}" --complete "${words[@]:1}" 2>/dev/null)
  [[ ${#offered[@]} -gt 0 ]] || return
  word=${words[-1]}
  typed=${word##*[=:]}               # what bash puts the reply in the place of
  front=${word%"$typed"}
  for value in "${offered[@]:1}"; do
    value=${value%%$'\t'*}
    COMPREPLY+=("${value#"$front"}")
  done
  [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
  files=${offered[0]}
  [[ $files == - ]] && return
  local before=${#COMPREPLY[@]}
  while IFS= read -r path; do
    if [[ $files == '*' || -d ${path/#\~/$HOME} ]]; then COMPREPLY+=("$path"); continue; fi
    for ending in $files; do [[ $path == *"$ending" ]] && COMPREPLY+=("$path"); done
  done < <(if [[ $files == / ]]; then compgen -d -- "$typed"; else compgen -f -- "$typed"; fi)
  # Where no file has such an ending, any may be meant.
  [[ ${#COMPREPLY[@]} -gt 0 || $files == / ]] || mapfile -t COMPREPLY < <(compgen -f -- "$typed")
  [[ ${#COMPREPLY[@]} -gt $before ]] && compopt -o filenames 2>/dev/null
}
complete -F _temper temper
