
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
            cand --stdin 'What the command reads: inherit, null, open or a file'
            cand -f 'What standard output carries'
            cand --format 'What standard output carries'
            cand -p 'Begin each line with TEMPLATE (text) [default template: ''{stream} | '']'
            cand --prefix 'Begin each line with TEMPLATE (text) [default template: ''{stream} | '']'
            cand -T 'Begin each line with its time (text); add time to every chunk (ndjson)'
            cand --timestamps 'Begin each line with its time (text); add time to every chunk (ndjson)'
            cand --color 'Whether prefixes and the status line are in colour'
            cand --snapshot-every 'The least time from one snapshot to the next (snapshot)'
            cand --stderr-level 'What log and logfmt call a line of standard error'
            cand --meta 'Add to the metadata of every chunk (ndjson); repeatable'
            cand --progress 'Whether a status line stands under the output (text on a terminal)'
            cand --pty 'Run the command on a terminal of its own, so that it shows every line at once'
            cand --size 'The size of that terminal [default: that of runcast''s own, else 80x24]'
            cand --split 'What ends a line: LF; LF, CR or CR LF; NUL'
            cand --max-line 'The longest piece handled as one line'
            cand --partial-after 'When an unfinished line goes out, or never'
            cand --mask-env 'Replace the value of a variable by *** wherever it shows; repeatable'
            cand --mask-file 'The same for each line of FILE; repeatable'
            cand --heartbeat 'Say that the run goes on when nothing else was written for this long (ndjson)'
            cand --on-lag 'What happens when the output is read too slowly: block, drop or drop:SIZE'
            cand --on-disconnect 'What happens when the reader of the output goes away'
            cand --record 'Also write every event to FILE, as ndjson does, to be played again'
            cand --result 'Write the result, a JSON object, to a file, fd:N or - (standard output)'
            cand --max-output 'How much of each stream the result keeps, or unlimited'
            cand --keep 'Which part it keeps past that; both is half and half'
            cand --id 'The run''s name; one that is there already is not started again [default: a fresh one]'
            cand --journal 'How much of its output is kept on disk; past that the oldest goes'
            cand --host 'Do it on DEST, through ssh'
            cand --retry-timeout 'How long to try again when the connection breaks'
            cand --remote-runcast 'The runcast on DEST'
            cand --backend 'What COMMAND is: a program, a string for sh -c, or a module to call'
            cand --input 'Hand in a JSON value: the value itself, @FILE or - (standard input)'
            cand --max-result 'The longest value that is taken back, or unlimited'
            cand --shell 'Take COMMAND as one string for sh -c: --backend shell'
            cand --no-new-privs 'Let no program that the command executes gain privileges'
            cand --clear-env 'Start from PATH, HOME, LANG, USER, TERM and LC_ALL alone'
            cand -q 'Show nothing of the output; the result still has it'
            cand --quiet 'Show nothing of the output; the result still has it'
            cand --merge 'Give both streams one pipe, as 2>&1: their order is then exact'
            cand --strip-ansi 'Remove terminal escape sequences from what is shown, kept and recorded'
            cand --no-argv 'Leave the command line out of the events'
            cand -d 'Start the command, print the run''s name and leave it running'
            cand --detach 'Start the command, print the run''s name and leave it running'
            cand --callable 'The program takes a value and returns one'
            cand --list-backends 'Show which backends there are, as text or with -f ndjson, and end'
            cand -h 'Show this help; --help tells more than -h'
            cand --help 'Show this help; --help tells more than -h'
            cand -V 'Show the version'
            cand --version 'Show the version'
            cand attach 'Show a detached run from its beginning, then live, and end with its status'
            cand wait 'Wait until a detached run is over, print its result, and end with its status'
            cand send 'Send standard input to a detached run that was started with --stdin open'
            cand signal 'Signal the processes of a detached run, or stop it'
            cand runs 'List the detached runs, newest first'
            cand forget 'Delete detached runs that are over'
            cand replay 'Play a recording in its own time, and end with the status that it has recorded'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'runcast;attach'= {
            cand --host 'Do it on DEST, through ssh'
            cand --retry-timeout 'How long to try again when the connection breaks'
            cand --remote-runcast 'The runcast on DEST'
            cand --after 'Show only what comes after chunk number SEQ'
            cand --from 'The same by the lines seen of each stream: stdout=N,stderr=M'
            cand -f 'What standard output carries'
            cand --format 'What standard output carries'
            cand -p 'Begin each line with TEMPLATE (text) [default template: ''{stream} | '']'
            cand --prefix 'Begin each line with TEMPLATE (text) [default template: ''{stream} | '']'
            cand -T 'Begin each line with its time (text); add time to every chunk (ndjson)'
            cand --timestamps 'Begin each line with its time (text); add time to every chunk (ndjson)'
            cand --color 'Whether prefixes and the status line are in colour'
            cand --snapshot-every 'The least time from one snapshot to the next (snapshot)'
            cand --stderr-level 'What log and logfmt call a line of standard error'
            cand --meta 'Add to the metadata of every chunk (ndjson); repeatable'
            cand --stdin 'Also send standard input to the run, and close its own where that ends'
            cand -q 'Show nothing of the output; the result still has it'
            cand --quiet 'Show nothing of the output; the result still has it'
            cand -h 'Show this help; --help tells more than -h'
            cand --help 'Show this help; --help tells more than -h'
        }
        &'runcast;wait'= {
            cand --host 'Do it on DEST, through ssh'
            cand --retry-timeout 'How long to try again when the connection breaks'
            cand --remote-runcast 'The runcast on DEST'
            cand -t 'Wait no longer than this, then end with 124: the run goes on [default: until it is over]'
            cand --timeout 'Wait no longer than this, then end with 124: the run goes on [default: until it is over]'
            cand -f 'text for people, ndjson for programs'
            cand --format 'text for people, ndjson for programs'
            cand -h 'Show this help; --help tells more than -h'
            cand --help 'Show this help; --help tells more than -h'
        }
        &'runcast;send'= {
            cand --host 'Do it on DEST, through ssh'
            cand --retry-timeout 'How long to try again when the connection breaks'
            cand --remote-runcast 'The runcast on DEST'
            cand --offset 'Where in its input these bytes belong; what it already has is skipped'
            cand -f 'text for people, ndjson for programs'
            cand --format 'text for people, ndjson for programs'
            cand --eof 'Close the run''s standard input after them'
            cand -h 'Show this help; --help tells more than -h'
            cand --help 'Show this help; --help tells more than -h'
        }
        &'runcast;signal'= {
            cand --host 'Do it on DEST, through ssh'
            cand --retry-timeout 'How long to try again when the connection breaks'
            cand --remote-runcast 'The runcast on DEST'
            cand -f 'text for people, ndjson for programs'
            cand --format 'text for people, ndjson for programs'
            cand --stop 'Stop the run as a timeout would, with its --signal and --kill-after'
            cand -h 'Show this help; --help tells more than -h'
            cand --help 'Show this help; --help tells more than -h'
        }
        &'runcast;runs'= {
            cand --host 'Do it on DEST, through ssh'
            cand --retry-timeout 'How long to try again when the connection breaks'
            cand --remote-runcast 'The runcast on DEST'
            cand -f 'text for people, ndjson for programs'
            cand --format 'text for people, ndjson for programs'
            cand -h 'Show this help; --help tells more than -h'
            cand --help 'Show this help; --help tells more than -h'
        }
        &'runcast;forget'= {
            cand --host 'Do it on DEST, through ssh'
            cand --retry-timeout 'How long to try again when the connection breaks'
            cand --remote-runcast 'The runcast on DEST'
            cand --older-than 'Delete those that are over and were started longer ago than this'
            cand -f 'text for people, ndjson for programs'
            cand --format 'text for people, ndjson for programs'
            cand --finished 'Delete all that are over'
            cand -h 'Show this help; --help tells more than -h'
            cand --help 'Show this help; --help tells more than -h'
        }
        &'runcast;replay'= {
            cand --speed 'How many times as fast as it was, or max: without waiting'
            cand --idle-limit 'The longest pause between two lines; 0 is any [default: any]'
            cand -f 'What standard output carries'
            cand --format 'What standard output carries'
            cand -p 'Begin each line with TEMPLATE (text) [default template: ''{stream} | '']'
            cand --prefix 'Begin each line with TEMPLATE (text) [default template: ''{stream} | '']'
            cand -T 'Begin each line with its time (text); add time to every chunk (ndjson)'
            cand --timestamps 'Begin each line with its time (text); add time to every chunk (ndjson)'
            cand --color 'Whether prefixes and the status line are in colour'
            cand --snapshot-every 'The least time from one snapshot to the next (snapshot)'
            cand --stderr-level 'What log and logfmt call a line of standard error'
            cand --meta 'Add to the metadata of every chunk (ndjson); repeatable'
            cand -q 'Show nothing of the output; the result still has it'
            cand --quiet 'Show nothing of the output; the result still has it'
            cand -h 'Show this help; --help tells more than -h'
            cand --help 'Show this help; --help tells more than -h'
        }
        &'runcast;help'= {
            cand attach 'Show a detached run from its beginning, then live, and end with its status'
            cand wait 'Wait until a detached run is over, print its result, and end with its status'
            cand send 'Send standard input to a detached run that was started with --stdin open'
            cand signal 'Signal the processes of a detached run, or stop it'
            cand runs 'List the detached runs, newest first'
            cand forget 'Delete detached runs that are over'
            cand replay 'Play a recording in its own time, and end with the status that it has recorded'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'runcast;help;attach'= {
        }
        &'runcast;help;wait'= {
        }
        &'runcast;help;send'= {
        }
        &'runcast;help;signal'= {
        }
        &'runcast;help;runs'= {
        }
        &'runcast;help;forget'= {
        }
        &'runcast;help;replay'= {
        }
        &'runcast;help;help'= {
        }
    ]
    $completions[$command]
}
