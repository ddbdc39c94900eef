
# From here on not generated from the options: what COMMAND is, and which runs there are.

# The names of detached runs, those whose state is like $2.
_runcast_runs() {
    command "$1" runs -f ndjson 2>/dev/null |
        sed -n 's/^{"id":"\([^"]*\)","state":"'"$2"'".*/\1/p'
}

# Completes the words from number $1 on as if they stood alone.
_runcast_wrapped() {
    local offset=$1 before word
    if declare -F _comp_command_offset >/dev/null; then
        _comp_command_offset "$offset"
        return
    elif declare -F _command_offset >/dev/null; then
        _command_offset "$offset"
        return
    fi
    if ((COMP_CWORD == offset)); then
        COMPREPLY=($(compgen -c -- "$2"))
        return
    fi
    # Without bash-completion only what is there already can be asked, and else files are completed.
    [[ $(complete -p -- "${COMP_WORDS[offset]##*/}" 2>/dev/null) =~ \ -F\ ([^ ]+) ]] || return 0
    before=$COMP_LINE
    for word in "${COMP_WORDS[@]:0:offset}"; do
        COMP_LINE=${COMP_LINE#*"$word"}
    done
    COMP_LINE=${COMP_LINE#"${COMP_LINE%%[![:space:]]*}"}
    ((COMP_POINT -= ${#before} - ${#COMP_LINE}, COMP_CWORD -= offset))
    COMP_WORDS=("${COMP_WORDS[@]:offset}")
    "${BASH_REMATCH[1]}" "${COMP_WORDS[0]}" "$2" "${COMP_WORDS[COMP_CWORD - 1]}"
}

_runcast_words() {
    local cur=$2 prev=$3 word value="" subcommand="" number=0 i
    local COMP_LINE=$COMP_LINE COMP_POINT=$COMP_POINT COMP_CWORD=$COMP_CWORD
    local -a COMP_WORDS=("${COMP_WORDS[@]}")
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ -n $value ]]; then
            # bash takes the = of --option=VALUE for a word.
            if [[ $word != = || $value != --* || ${COMP_WORDS[i - 1]} != "$value" ]]; then
                value=""
            fi
        elif [[ $word == -- && -z $subcommand ]]; then
            _runcast_wrapped $((i + 1)) "$cur"
            return
        elif [[ $word =~ ^-[@FLAGS@]*[@SHORT@]$ ]]; then
            value=$word
        elif [[ -z $subcommand && $word =~ ^--(@LONG@)$ ]]; then
            value=$word
        elif [[ -n $subcommand && $word =~ ^--(@SUBLONG@)$ ]]; then
            value=$word
        elif [[ $word != -?* && -n $subcommand ]]; then
            ((++number))
        elif [[ $word =~ ^(@SUBCOMMANDS@)$ ]]; then
            subcommand=$word
        elif [[ $word != -?* ]]; then
            _runcast_wrapped "$i" "$cur"
            return
        fi
    done
    if [[ -n $value ]]; then
        prev=$value
        if [[ $cur == = ]]; then cur=""; fi
    elif [[ $cur != -* && -z $subcommand ]]; then
        COMPREPLY=($(compgen -W "@WORDS@" -- "$cur"))
        if [[ -n $cur ]]; then COMPREPLY+=($(compgen -c -- "$cur")); fi
        return
    elif [[ $cur != -* && $subcommand != replay ]]; then
        # What is not there is not made up from files.
        compopt +o default +o bashdefault 2>/dev/null
        case $subcommand:$number in
            attach:0 | wait:0) COMPREPLY=($(compgen -W "$(_runcast_runs "$1" '[^"]*')" -- "$cur")) ;;
            send:0 | signal:0) COMPREPLY=($(compgen -W "$(_runcast_runs "$1" running)" -- "$cur")) ;;
            signal:1) COMPREPLY=($(compgen -A signal -- "$cur")) ;;
            forget:*) COMPREPLY=($(compgen -W "$(_runcast_runs "$1" '[^r"][^"]*')" -- "$cur")) ;;
        esac
        return
    fi
    _runcast "$1" "$cur" "$prev"
}

if [[ "${BASH_VERSINFO[0]}" -eq 4 && "${BASH_VERSINFO[1]}" -ge 4 || "${BASH_VERSINFO[0]}" -gt 4 ]]; then
    complete -F _runcast_words -o nosort -o bashdefault -o default runcast
else
    complete -F _runcast_words -o bashdefault -o default runcast
fi
