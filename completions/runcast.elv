
use builtin;
use str;

set edit:completion:arg-completer[runcast] = {|@words|
    fn spaces {|n|
        builtin:repeat $n ' ' | str:join ''
    }
    fn cand {|text desc|
        edit:complex-candidate $text &display=$text' '(spaces (- 14 (wcswidth $text)))$desc
    }
    var command = 'runcast'
    for word $words[1..-1] {
        if (str:has-prefix $word '-') {
            break
        }
        set command = $command';'$word
    }
    var completions = [
        &'runcast'= {
            cand -t 'Stop the command this long after it started; 0 is never [default: never]'
            cand --timeout 'Stop the command this long after it started; 0 is never [default: never]'
            cand --idle-timeout 'Stop it when it has written nothing for this long; 0 is never [default: never]'
            cand -s 'What stopping sends first, to every process of the run'
            cand --signal 'What stopping sends first, to every process of the run'
            cand -k 'How long after that KILL follows; 0 is KILL at once [default: 2s]'
            cand --kill-after 'How long after that KILL follows; 0 is KILL at once [default: 2s]'
            cand -r 'Set a resource limit of the command; repeatable, or several joined by commas'
            cand --rlimit 'Set a resource limit of the command; repeatable, or several joined by commas'
            cand --max-memory 'Kill the run when all its processes use more memory than this [default: none]'
            cand --output-limit 'Stop the run when it has written more than this [default: none]'
            cand --map-signal 'Forward TO, or none, in place of a received FROM; repeatable'
            cand --drain 'How long to wait for streams still held after the command ended'
            cand --leftover 'What becomes of processes still alive after that'
            cand --nice 'Add N to the command''s nice value'
            cand --umask 'Set the command''s file mode creation mask'
            cand -C 'Start the command in DIR'
            cand --chdir 'Start the command in DIR'
            cand -e 'Set a variable, or take it over from runcast''s own environment; repeatable'
            cand --env 'Set a variable, or take it over from runcast''s own environment; repeatable'
            cand --env-file 'Set the variables of FILE, a NAME=VALUE line each; repeatable'
            cand --unset 'Remove a variable; repeatable'
            cand --stdin 'What the command reads: inherit, null or a file'
            cand -f 'What standard output carries'
            cand --format 'What standard output carries'
            cand --snapshot-every 'The least time from one snapshot to the next (snapshot)'
            cand --stderr-level 'What log and logfmt call a line of standard error'
            cand --meta 'Add to the metadata of every chunk (ndjson); repeatable'
            cand --split 'What ends a line: LF; LF, CR or CR LF; NUL'
            cand --max-line 'The longest piece handled as one line'
            cand --partial-after 'When an unfinished line goes out, or never'
            cand --heartbeat 'Say that the run goes on when nothing else was written for this long (ndjson)'
            cand --on-lag 'What happens when the output is read too slowly: block or drop[:SIZE]'
            cand --on-disconnect 'What happens when the reader of the output goes away'
            cand --record 'Also write every event to FILE, as ndjson does, to be played again'
            cand --result 'Write the result, a JSON object, to a file, fd:N or - (standard output)'
            cand --max-output 'How much of each stream the result keeps, or unlimited'
            cand --keep 'Which part it keeps past that; both is half and half'
            cand --backend 'What COMMAND is: a program, a string for sh -c, or a module to call'
            cand --input 'Hand in a JSON value: the value itself, @FILE or - (standard input)'
            cand --max-result 'The longest value that is taken back, or unlimited'
            cand --shell 'Take COMMAND as one string for sh -c: --backend shell'
            cand --no-new-privs 'Let no program that the command executes gain privileges'
            cand --clear-env 'Start from PATH, HOME, LANG, USER, TERM and LC_ALL alone'
            cand -q 'Show nothing of the output; the result still has it'
            cand --quiet 'Show nothing of the output; the result still has it'
            cand --merge 'Give both streams one pipe, as 2>&1: their order is then exact'
            cand --no-argv 'Leave the command line out of the events'
            cand --callable 'The program takes a value and returns one'
            cand --list-backends 'Show which backends there are, as text or with -f ndjson, and end'
            cand -h 'Show this help; --help tells more than -h'
            cand --help 'Show this help; --help tells more than -h'
            cand -V 'Show the version'
            cand --version 'Show the version'
            cand replay 'Play a recording in its own time, and end with the status that it has recorded'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'runcast;replay'= {
            cand --speed 'How many times as fast as it was, or max: without waiting'
            cand --idle-limit 'The longest pause between two lines; 0 is any [default: any]'
            cand -f 'What standard output carries'
            cand --format 'What standard output carries'
            cand --snapshot-every 'The least time from one snapshot to the next (snapshot)'
            cand --stderr-level 'What log and logfmt call a line of standard error'
            cand --meta 'Add to the metadata of every chunk (ndjson); repeatable'
            cand -q 'Show nothing of the output; the result still has it'
            cand --quiet 'Show nothing of the output; the result still has it'
            cand -h 'Show this help; --help tells more than -h'
            cand --help 'Show this help; --help tells more than -h'
        }
        &'runcast;help'= {
            cand replay 'Play a recording in its own time, and end with the status that it has recorded'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'runcast;help;replay'= {
        }
        &'runcast;help;help'= {
        }
    ]
    $completions[$command]
}
