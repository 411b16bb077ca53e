# Completes the commands of ringscope, their flags and the values of these.
_ringscope() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} words=
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W "{{names}}" -- "$current"))
    return
  fi
  case ${COMP_WORDS[1]}:$previous in
{{values}}  esac
  if [[ $words == FILE ]]; then
    COMPREPLY=($(compgen -f -- "$current"))
    return
  elif [[ $words == NONE ]]; then
    COMPREPLY=()
    return
  elif [[ -z $words && $current != -* ]]; then
    COMPREPLY=($(compgen -f -- "$current"))
    return
  elif [[ -z $words ]]; then
    case ${COMP_WORDS[1]} in
{{flags}}    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o filenames -F _ringscope ringscope
