
# From here on not generated from the options: what COMMAND is, and which runs there are.

# Prints the place of the first word that is no option, where there is one before the cursor, or that of the word
# behind `--`; the second word printed is what stands there.
function __fish_runcast_command
    set -l words (commandline -opc)
    set -l value 0
    for i in (seq 2 (count $words))
        set -l word $words[$i]
        if test $value = 1
            set value 0
        else if test "$word" = --
            echo (math $i + 1)
            echo --
            return 0
        else if string match -qr -- '^--(@LONG@)$|^-[@FLAGS@]*[@SHORT@]$' $word
            set value 1
        else if not string match -q -- '-?*' $word
            echo $i
            echo $word
            return 0
        end
    end
    return 1
end

# As the generated one says it, but words behind `--` are no subcommand.
function __fish_runcast_needs_command
    set -l command (__fish_runcast_command)
    or return 0
    echo $command[2]
    return 1
end

function __fish_runcast_is_wrapped
    set -l command (__fish_runcast_command)
    and not string match -qr -- '^(@SUBCOMMANDS@)$' $command[2]
end

# Completes COMMAND and what follows it as if it stood alone.
function __fish_runcast_wrapped
    set -l command (__fish_runcast_command)
    set -l words (commandline -opc)
    complete -C (string join ' ' -- (string escape -- $words[$command[1]..]) (commandline -ct))
end

# Whether so many words as $argv[1] stand behind one of the subcommands that follow.
function __fish_runcast_has_words
    set -l command (__fish_runcast_command)
    and contains -- $command[2] $argv[2..]
    or return 1
    set -l words (commandline -opc)
    set -l number 0
    set -l value 0
    for word in $words[(math $command[1] + 1)..]
        if test $value = 1
            set value 0
        else if string match -qr -- '^--(@SUBLONG@)$|^-[@FLAGS@]*[@SHORT@]$' $word
            set value 1
        else if not string match -q -- '-?*' $word
            set number (math $number + 1)
        end
    end
    test $argv[1] = any -o $argv[1] = $number
end

# The names of detached runs, those whose state is like $argv[1].
function __fish_runcast_runs
    set -l words (commandline -opc)
    command $words[1] runs -f ndjson 2>/dev/null |
        string replace -rf -- '^\{"id":"([^"]*)","state":"('$argv[1]')".*' '$1\t$2'
end

complete -c runcast -n "__fish_runcast_needs_command" -f -a "(__fish_complete_command)"
complete -c runcast -n "__fish_runcast_is_wrapped" -f -a "(__fish_runcast_wrapped)"
complete -c runcast -n "__fish_runcast_has_words any attach wait send signal forget runs" -f
complete -c runcast -n "__fish_runcast_has_words 0 attach wait" -f -a "(__fish_runcast_runs '[^\"]*')"
complete -c runcast -n "__fish_runcast_has_words 0 send signal" -f -a "(__fish_runcast_runs running)"
complete -c runcast -n "__fish_runcast_has_words any forget" -f -a "(__fish_runcast_runs '[^r\"][^\"]*')"
