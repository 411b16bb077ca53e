#compdef ringscope
# Completes the commands of ringscope, their flags and the values of these.
_ringscope() {
  local -a commands
  commands=(
{{names}}  )
  if ((CURRENT == 2)); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  ((CURRENT--))
  case $command in
{{cases}}  esac
}
_ringscope "$@"
