# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_runcast_global_optspecs
    string join \n t/timeout= idle-timeout= s/signal= k/kill-after= r/rlimit= max-memory= output-limit= shell map-signal= drain= leftover= nice= umask= no-new-privs C/chdir= e/env= env-file= clear-env unset= stdin= f/format= q/quiet p/prefix= T/timestamps= color= snapshot-every= stderr-level= meta= progress= merge pty= size= split= max-line= partial-after= strip-ansi mask-env= mask-file= no-argv heartbeat= on-lag= on-disconnect= record= result= max-output= keep= d/detach id= journal= host= retry-timeout= remote-runcast= backend= input= callable max-result= list-backends h/help V/version
end

function __fish_runcast_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_runcast_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_runcast_using_subcommand
    set -l cmd (__fish_runcast_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c runcast -n "__fish_runcast_needs_command" -s t -l timeout -d 'Stop the command this long after it started; 0 is never [default: never]' -r -f
complete -c runcast -n "__fish_runcast_needs_command" -l idle-timeout -d 'Stop it when it has written nothing for this long; 0 is never [default: never]' -r -f
complete -c runcast -n "__fish_runcast_needs_command" -s s -l signal -d 'What stopping sends first, to every process of the run' -r -f
complete -c runcast -n "__fish_runcast_needs_command" -s k -l kill-after -d 'How long after that KILL follows; 0 is KILL at once [default: 2s]' -r -f
complete -c runcast -n "__fish_runcast_needs_command" -s r -l rlimit -d 'Set a resource limit of the command; repeatable, or several joined by commas' -r -f
complete -c runcast -n "__fish_runcast_needs_command" -l max-memory -d 'Kill the run when all its processes use more memory than this [default: none]' -r -f
complete -c runcast -n "__fish_runcast_needs_command" -l output-limit -d 'Stop the run when it has written more than this [default: none]' -r -f
complete -c runcast -n "__fish_runcast_needs_command" -l map-signal -d 'Forward TO, or none, in place of a received FROM; repeatable' -r -f
complete -c runcast -n "__fish_runcast_needs_command" -l drain -d 'How long to wait for streams still held after the command ended' -r -f
complete -c runcast -n "__fish_runcast_needs_command" -l leftover -d 'What becomes of processes still alive after that' -r -f -a "leave\t''
kill\t''
wait\t''"
complete -c runcast -n "__fish_runcast_needs_command" -l nice -d 'Add N to the command\'s nice value' -r -f
complete -c runcast -n "__fish_runcast_needs_command" -l umask -d 'Set the command\'s file mode creation mask' -r -f
complete -c runcast -n "__fish_runcast_needs_command" -s C -l chdir -d 'Start the command in DIR' -r -f -a "(__fish_complete_directories)"
complete -c runcast -n "__fish_runcast_needs_command" -s e -l env -d 'Set a variable, or take it over from runcast\'s own environment; repeatable' -r -f
complete -c runcast -n "__fish_runcast_needs_command" -l env-file -d 'Set the variables of FILE, a NAME=VALUE line each; repeatable' -r -F
complete -c runcast -n "__fish_runcast_needs_command" -l unset -d 'Remove a variable; repeatable' -r -f
complete -c runcast -n "__fish_runcast_needs_command" -l stdin -d 'What the command reads: inherit, null, open or a file' -r -F
complete -c runcast -n "__fish_runcast_needs_command" -s f -l format -d 'What standard output carries' -r -f -a "text\t''
ndjson\t''
snapshot\t''
cri\t''
log\t''
logfmt\t''"
complete -c runcast -n "__fish_runcast_needs_command" -s p -l prefix -d 'Begin each line with TEMPLATE (text) [default template: \'{stream} | \']' -r -f
complete -c runcast -n "__fish_runcast_needs_command" -s T -l timestamps -d 'Begin each line with its time (text); add time to every chunk (ndjson)' -r -f
complete -c runcast -n "__fish_runcast_needs_command" -l color -d 'Whether prefixes and the status line are in colour' -r -f -a "auto\t''
always\t''
never\t''"
complete -c runcast -n "__fish_runcast_needs_command" -l snapshot-every -d 'The least time from one snapshot to the next (snapshot)' -r -f
complete -c runcast -n "__fish_runcast_needs_command" -l stderr-level -d 'What log and logfmt call a line of standard error' -r -f -a "debug\t''
info\t''
warn\t''
error\t''"
complete -c runcast -n "__fish_runcast_needs_command" -l meta -d 'Add to the metadata of every chunk (ndjson); repeatable' -r -f
complete -c runcast -n "__fish_runcast_needs_command" -l progress -d 'Whether a status line stands under the output (text on a terminal)' -r -f -a "auto\t''
always\t''
never\t''"
complete -c runcast -n "__fish_runcast_needs_command" -l pty -d 'Run the command on a terminal of its own, so that it shows every line at once' -r -f -a "full\t''
split\t''"
complete -c runcast -n "__fish_runcast_needs_command" -l size -d 'The size of that terminal [default: that of runcast\'s own, else 80x24]' -r -f
complete -c runcast -n "__fish_runcast_needs_command" -l split -d 'What ends a line: LF; LF, CR or CR LF; NUL' -r -f -a "lf\t''
cr\t''
nul\t''"
complete -c runcast -n "__fish_runcast_needs_command" -l max-line -d 'The longest piece handled as one line' -r -f
complete -c runcast -n "__fish_runcast_needs_command" -l partial-after -d 'When an unfinished line goes out, or never' -r -f
complete -c runcast -n "__fish_runcast_needs_command" -l mask-env -d 'Replace the value of a variable by *** wherever it shows; repeatable' -r -f
complete -c runcast -n "__fish_runcast_needs_command" -l mask-file -d 'The same for each line of FILE; repeatable' -r -F
complete -c runcast -n "__fish_runcast_needs_command" -l heartbeat -d 'Say that the run goes on when nothing else was written for this long (ndjson)' -r -f
complete -c runcast -n "__fish_runcast_needs_command" -l on-lag -d 'What happens when the output is read too slowly: block, drop or drop:SIZE' -r -f
complete -c runcast -n "__fish_runcast_needs_command" -l on-disconnect -d 'What happens when the reader of the output goes away' -r -f -a "stop\t''
continue\t''"
complete -c runcast -n "__fish_runcast_needs_command" -l record -d 'Also write every event to FILE, as ndjson does, to be played again' -r -F
complete -c runcast -n "__fish_runcast_needs_command" -l result -d 'Write the result, a JSON object, to a file, fd:N or - (standard output)' -r -F
complete -c runcast -n "__fish_runcast_needs_command" -l max-output -d 'How much of each stream the result keeps, or unlimited' -r -f
complete -c runcast -n "__fish_runcast_needs_command" -l keep -d 'Which part it keeps past that; both is half and half' -r -f -a "head\t''
tail\t''
both\t''"
complete -c runcast -n "__fish_runcast_needs_command" -l id -d 'The run\'s name; one that is there already is not started again [default: a fresh one]' -r -f
complete -c runcast -n "__fish_runcast_needs_command" -l journal -d 'How much of its output is kept on disk; past that the oldest goes' -r -f
complete -c runcast -n "__fish_runcast_needs_command" -l host -d 'Do it on DEST, through ssh' -r -f
complete -c runcast -n "__fish_runcast_needs_command" -l retry-timeout -d 'How long to try again when the connection breaks' -r -f
complete -c runcast -n "__fish_runcast_needs_command" -l remote-runcast -d 'The runcast on DEST, where it is not on the PATH there' -r -f
complete -c runcast -n "__fish_runcast_needs_command" -l backend -d 'What COMMAND is: a program, a string for sh -c, or a module to call' -r -f -a "exec\t''
shell\t''
node\t''
python\t''"
complete -c runcast -n "__fish_runcast_needs_command" -l input -d 'Hand in a JSON value: the value itself, @FILE or - (standard input)' -r -f
complete -c runcast -n "__fish_runcast_needs_command" -l max-result -d 'The longest value that is taken back, or unlimited' -r -f
complete -c runcast -n "__fish_runcast_needs_command" -l shell -d 'Take COMMAND as one string for sh -c: --backend shell'
complete -c runcast -n "__fish_runcast_needs_command" -l no-new-privs -d 'Let no program that the command executes gain privileges'
complete -c runcast -n "__fish_runcast_needs_command" -l clear-env -d 'Start from PATH, HOME, LANG, USER, TERM and LC_ALL alone'
complete -c runcast -n "__fish_runcast_needs_command" -s q -l quiet -d 'Show nothing of the output; the result still has it'
complete -c runcast -n "__fish_runcast_needs_command" -l merge -d 'Give both streams one pipe, as 2>&1: their order is then exact'
complete -c runcast -n "__fish_runcast_needs_command" -l strip-ansi -d 'Remove terminal escape sequences from what is shown, kept and recorded'
complete -c runcast -n "__fish_runcast_needs_command" -l no-argv -d 'Leave the command line out of the events'
complete -c runcast -n "__fish_runcast_needs_command" -s d -l detach -d 'Start the command, print the run\'s name and leave it running'
complete -c runcast -n "__fish_runcast_needs_command" -l callable -d 'The program takes a value and returns one'
complete -c runcast -n "__fish_runcast_needs_command" -l list-backends -d 'Show which backends there are, as text or with -f ndjson, and end'
complete -c runcast -n "__fish_runcast_needs_command" -s h -l help -d 'Show this help; --help tells more than -h'
complete -c runcast -n "__fish_runcast_needs_command" -s V -l version -d 'Show the version'
complete -c runcast -n "__fish_runcast_needs_command" -f -a "attach" -d 'Show a detached run from its beginning, then live, and end with its status'
complete -c runcast -n "__fish_runcast_needs_command" -f -a "wait" -d 'Wait until a detached run is over, print its result, and end with its status'
complete -c runcast -n "__fish_runcast_needs_command" -f -a "send" -d 'Send standard input to a detached run that was started with --stdin open'
complete -c runcast -n "__fish_runcast_needs_command" -f -a "signal" -d 'Signal the processes of a detached run, or stop it'
complete -c runcast -n "__fish_runcast_needs_command" -f -a "runs" -d 'List the detached runs, newest first'
complete -c runcast -n "__fish_runcast_needs_command" -f -a "forget" -d 'Delete detached runs that are over'
complete -c runcast -n "__fish_runcast_needs_command" -f -a "replay" -d 'Play a recording in its own time, and end with the status that it has recorded'
complete -c runcast -n "__fish_runcast_using_subcommand attach" -l after -d 'Show only what comes after chunk number SEQ' -r -f
complete -c runcast -n "__fish_runcast_using_subcommand attach" -l from -d 'The same by the lines seen of each stream: stdout=N,stderr=M' -r -f
complete -c runcast -n "__fish_runcast_using_subcommand attach" -s f -l format -d 'What standard output carries' -r -f -a "text\t''
ndjson\t''
snapshot\t''
cri\t''
log\t''
logfmt\t''"
complete -c runcast -n "__fish_runcast_using_subcommand attach" -s p -l prefix -d 'Begin each line with TEMPLATE (text) [default template: \'{stream} | \']' -r -f
complete -c runcast -n "__fish_runcast_using_subcommand attach" -s T -l timestamps -d 'Begin each line with its time (text); add time to every chunk (ndjson)' -r -f
complete -c runcast -n "__fish_runcast_using_subcommand attach" -l color -d 'Whether prefixes and the status line are in colour' -r -f -a "auto\t''
always\t''
never\t''"
complete -c runcast -n "__fish_runcast_using_subcommand attach" -l snapshot-every -d 'The least time from one snapshot to the next (snapshot)' -r -f
complete -c runcast -n "__fish_runcast_using_subcommand attach" -l stderr-level -d 'What log and logfmt call a line of standard error' -r -f -a "debug\t''
info\t''
warn\t''
error\t''"
complete -c runcast -n "__fish_runcast_using_subcommand attach" -l meta -d 'Add to the metadata of every chunk (ndjson); repeatable' -r -f
complete -c runcast -n "__fish_runcast_using_subcommand attach" -l split -d 'What ended a line when it was run with --split' -r -f -a "lf\t''
cr\t''
nul\t''"
complete -c runcast -n "__fish_runcast_using_subcommand attach" -l host -d 'Do it on DEST, through ssh' -r -f
complete -c runcast -n "__fish_runcast_using_subcommand attach" -l retry-timeout -d 'How long to try again when the connection breaks' -r -f
complete -c runcast -n "__fish_runcast_using_subcommand attach" -l remote-runcast -d 'The runcast on DEST, where it is not on the PATH there' -r -f
complete -c runcast -n "__fish_runcast_using_subcommand attach" -l stdin -d 'Also send standard input to the run, and close its own where that ends'
complete -c runcast -n "__fish_runcast_using_subcommand attach" -s q -l quiet -d 'Show nothing of the output; the result still has it'
complete -c runcast -n "__fish_runcast_using_subcommand attach" -s h -l help -d 'Show this help; --help tells more than -h'
complete -c runcast -n "__fish_runcast_using_subcommand wait" -s t -l timeout -d 'Wait no longer than this, then end with 124: the run goes on [default: until it is over]' -r -f
complete -c runcast -n "__fish_runcast_using_subcommand wait" -s f -l format -d 'text for people, ndjson for programs' -r -f -a "text\t''
ndjson\t''"
complete -c runcast -n "__fish_runcast_using_subcommand wait" -l host -d 'Do it on DEST, through ssh' -r -f
complete -c runcast -n "__fish_runcast_using_subcommand wait" -l retry-timeout -d 'How long to try again when the connection breaks' -r -f
complete -c runcast -n "__fish_runcast_using_subcommand wait" -l remote-runcast -d 'The runcast on DEST, where it is not on the PATH there' -r -f
complete -c runcast -n "__fish_runcast_using_subcommand wait" -s h -l help -d 'Show this help; --help tells more than -h'
complete -c runcast -n "__fish_runcast_using_subcommand send" -l offset -d 'Where in its input these bytes belong; what it already has is skipped' -r -f
complete -c runcast -n "__fish_runcast_using_subcommand send" -s f -l format -d 'text for people, ndjson for programs' -r -f -a "text\t''
ndjson\t''"
complete -c runcast -n "__fish_runcast_using_subcommand send" -l host -d 'Do it on DEST, through ssh' -r -f
complete -c runcast -n "__fish_runcast_using_subcommand send" -l retry-timeout -d 'How long to try again when the connection breaks' -r -f
complete -c runcast -n "__fish_runcast_using_subcommand send" -l remote-runcast -d 'The runcast on DEST, where it is not on the PATH there' -r -f
complete -c runcast -n "__fish_runcast_using_subcommand send" -l eof -d 'Close the run\'s standard input after them'
complete -c runcast -n "__fish_runcast_using_subcommand send" -s h -l help -d 'Show this help; --help tells more than -h'
complete -c runcast -n "__fish_runcast_using_subcommand signal" -s f -l format -d 'text for people, ndjson for programs' -r -f -a "text\t''
ndjson\t''"
complete -c runcast -n "__fish_runcast_using_subcommand signal" -l host -d 'Do it on DEST, through ssh' -r -f
complete -c runcast -n "__fish_runcast_using_subcommand signal" -l retry-timeout -d 'How long to try again when the connection breaks' -r -f
complete -c runcast -n "__fish_runcast_using_subcommand signal" -l remote-runcast -d 'The runcast on DEST, where it is not on the PATH there' -r -f
complete -c runcast -n "__fish_runcast_using_subcommand signal" -l stop -d 'Stop the run as a timeout would, with its --signal and --kill-after'
complete -c runcast -n "__fish_runcast_using_subcommand signal" -s h -l help -d 'Show this help; --help tells more than -h'
complete -c runcast -n "__fish_runcast_using_subcommand runs" -s f -l format -d 'text for people, ndjson for programs' -r -f -a "text\t''
ndjson\t''"
complete -c runcast -n "__fish_runcast_using_subcommand runs" -l host -d 'Do it on DEST, through ssh' -r -f
complete -c runcast -n "__fish_runcast_using_subcommand runs" -l retry-timeout -d 'How long to try again when the connection breaks' -r -f
complete -c runcast -n "__fish_runcast_using_subcommand runs" -l remote-runcast -d 'The runcast on DEST, where it is not on the PATH there' -r -f
complete -c runcast -n "__fish_runcast_using_subcommand runs" -s h -l help -d 'Show this help; --help tells more than -h'
complete -c runcast -n "__fish_runcast_using_subcommand forget" -l older-than -d 'Delete those that are over and were started longer ago than this' -r -f
complete -c runcast -n "__fish_runcast_using_subcommand forget" -s f -l format -d 'text for people, ndjson for programs' -r -f -a "text\t''
ndjson\t''"
complete -c runcast -n "__fish_runcast_using_subcommand forget" -l host -d 'Do it on DEST, through ssh' -r -f
complete -c runcast -n "__fish_runcast_using_subcommand forget" -l retry-timeout -d 'How long to try again when the connection breaks' -r -f
complete -c runcast -n "__fish_runcast_using_subcommand forget" -l remote-runcast -d 'The runcast on DEST, where it is not on the PATH there' -r -f
complete -c runcast -n "__fish_runcast_using_subcommand forget" -l finished -d 'Delete all that are over'
complete -c runcast -n "__fish_runcast_using_subcommand forget" -s h -l help -d 'Show this help; --help tells more than -h'
complete -c runcast -n "__fish_runcast_using_subcommand replay" -l speed -d 'How many times as fast as it was, or max: without waiting' -r -f
complete -c runcast -n "__fish_runcast_using_subcommand replay" -l idle-limit -d 'The longest pause between two lines; 0 is any [default: any]' -r -f
complete -c runcast -n "__fish_runcast_using_subcommand replay" -s f -l format -d 'What standard output carries' -r -f -a "text\t''
ndjson\t''
snapshot\t''
cri\t''
log\t''
logfmt\t''"
complete -c runcast -n "__fish_runcast_using_subcommand replay" -s p -l prefix -d 'Begin each line with TEMPLATE (text) [default template: \'{stream} | \']' -r -f
complete -c runcast -n "__fish_runcast_using_subcommand replay" -s T -l timestamps -d 'Begin each line with its time (text); add time to every chunk (ndjson)' -r -f
complete -c runcast -n "__fish_runcast_using_subcommand replay" -l color -d 'Whether prefixes and the status line are in colour' -r -f -a "auto\t''
always\t''
never\t''"
complete -c runcast -n "__fish_runcast_using_subcommand replay" -l snapshot-every -d 'The least time from one snapshot to the next (snapshot)' -r -f
complete -c runcast -n "__fish_runcast_using_subcommand replay" -l stderr-level -d 'What log and logfmt call a line of standard error' -r -f -a "debug\t''
info\t''
warn\t''
error\t''"
complete -c runcast -n "__fish_runcast_using_subcommand replay" -l meta -d 'Add to the metadata of every chunk (ndjson); repeatable' -r -f
complete -c runcast -n "__fish_runcast_using_subcommand replay" -l split -d 'What ended a line when it was run with --split' -r -f -a "lf\t''
cr\t''
nul\t''"
complete -c runcast -n "__fish_runcast_using_subcommand replay" -s q -l quiet -d 'Show nothing of the output; the result still has it'
complete -c runcast -n "__fish_runcast_using_subcommand replay" -s h -l help -d 'Show this help; --help tells more than -h'

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
        else if string match -qr -- '^--(backend|chdir|color|drain|env|env-file|format|heartbeat|host|id|idle-timeout|input|journal|keep|kill-after|leftover|map-signal|mask-env|mask-file|max-line|max-memory|max-output|max-result|meta|nice|on-disconnect|on-lag|output-limit|partial-after|progress|record|remote-runcast|result|retry-timeout|rlimit|signal|size|snapshot-every|split|stderr-level|stdin|timeout|umask|unset)$|^-[TVdhpq]*[Cefkrst]$' $word
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
    and not string match -qr -- '^(attach|wait|send|signal|runs|forget|replay)$' $command[2]
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
        else if string match -qr -- '^--(after|color|format|from|host|idle-limit|meta|offset|older-than|remote-runcast|retry-timeout|snapshot-every|speed|split|stderr-level|timeout)$|^-[TVdhpq]*[Cefkrst]$' $word
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
