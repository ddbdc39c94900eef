
using namespace System.Management.Automation
using namespace System.Management.Automation.Language

Register-ArgumentCompleter -Native -CommandName 'runcast' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)

    $commandElements = $commandAst.CommandElements
    $command = @(
        'runcast'
        for ($i = 1; $i -lt $commandElements.Count; $i++) {
            $element = $commandElements[$i]
            if ($element -isnot [StringConstantExpressionAst] -or
                $element.StringConstantType -ne [StringConstantType]::BareWord -or
                $element.Value.StartsWith('-') -or
                $element.Value -eq $wordToComplete) {
                break
        }
        $element.Value
    }) -join ';'

    $completions = @(switch ($command) {
        'runcast' {
            [CompletionResult]::new('-t', '-t', [CompletionResultType]::ParameterName, 'Stop the command this long after it started; 0 is never [default: never]')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Stop the command this long after it started; 0 is never [default: never]')
            [CompletionResult]::new('--idle-timeout', '--idle-timeout', [CompletionResultType]::ParameterName, 'Stop it when it has written nothing for this long; 0 is never [default: never]')
            [CompletionResult]::new('-s', '-s', [CompletionResultType]::ParameterName, 'What stopping sends first, to every process of the run')
            [CompletionResult]::new('--signal', '--signal', [CompletionResultType]::ParameterName, 'What stopping sends first, to every process of the run')
            [CompletionResult]::new('-k', '-k', [CompletionResultType]::ParameterName, 'How long after that KILL follows; 0 is KILL at once [default: 2s]')
            [CompletionResult]::new('--kill-after', '--kill-after', [CompletionResultType]::ParameterName, 'How long after that KILL follows; 0 is KILL at once [default: 2s]')
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Set a resource limit of the command; repeatable, or several joined by commas')
            [CompletionResult]::new('--rlimit', '--rlimit', [CompletionResultType]::ParameterName, 'Set a resource limit of the command; repeatable, or several joined by commas')
            [CompletionResult]::new('--max-memory', '--max-memory', [CompletionResultType]::ParameterName, 'Kill the run when all its processes use more memory than this [default: none]')
            [CompletionResult]::new('--output-limit', '--output-limit', [CompletionResultType]::ParameterName, 'Stop the run when it has written more than this [default: none]')
            [CompletionResult]::new('--map-signal', '--map-signal', [CompletionResultType]::ParameterName, 'Forward TO, or none, in place of a received FROM; repeatable')
            [CompletionResult]::new('--drain', '--drain', [CompletionResultType]::ParameterName, 'How long to wait for streams still held after the command ended')
            [CompletionResult]::new('--leftover', '--leftover', [CompletionResultType]::ParameterName, 'What becomes of processes still alive after that')
            [CompletionResult]::new('--nice', '--nice', [CompletionResultType]::ParameterName, 'Add N to the command''s nice value')
            [CompletionResult]::new('--umask', '--umask', [CompletionResultType]::ParameterName, 'Set the command''s file mode creation mask')
            [CompletionResult]::new('-C', '-C ', [CompletionResultType]::ParameterName, 'Start the command in DIR')
            [CompletionResult]::new('--chdir', '--chdir', [CompletionResultType]::ParameterName, 'Start the command in DIR')
            [CompletionResult]::new('-e', '-e', [CompletionResultType]::ParameterName, 'Set a variable, or take it over from runcast''s own environment; repeatable')
            [CompletionResult]::new('--env', '--env', [CompletionResultType]::ParameterName, 'Set a variable, or take it over from runcast''s own environment; repeatable')
            [CompletionResult]::new('--env-file', '--env-file', [CompletionResultType]::ParameterName, 'Set the variables of FILE, a NAME=VALUE line each; repeatable')
            [CompletionResult]::new('--unset', '--unset', [CompletionResultType]::ParameterName, 'Remove a variable; repeatable')
            [CompletionResult]::new('--stdin', '--stdin', [CompletionResultType]::ParameterName, 'What the command reads: inherit, null, open or a file')
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'What standard output carries')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'What standard output carries')
            [CompletionResult]::new('-p', '-p', [CompletionResultType]::ParameterName, 'Begin each line with TEMPLATE (text) [default template: ''{stream} | '']')
            [CompletionResult]::new('--prefix', '--prefix', [CompletionResultType]::ParameterName, 'Begin each line with TEMPLATE (text) [default template: ''{stream} | '']')
            [CompletionResult]::new('-T', '-T ', [CompletionResultType]::ParameterName, 'Begin each line with its time (text); add time to every chunk (ndjson)')
            [CompletionResult]::new('--timestamps', '--timestamps', [CompletionResultType]::ParameterName, 'Begin each line with its time (text); add time to every chunk (ndjson)')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Whether prefixes and the status line are in colour')
            [CompletionResult]::new('--snapshot-every', '--snapshot-every', [CompletionResultType]::ParameterName, 'The least time from one snapshot to the next (snapshot)')
            [CompletionResult]::new('--stderr-level', '--stderr-level', [CompletionResultType]::ParameterName, 'What log and logfmt call a line of standard error')
            [CompletionResult]::new('--meta', '--meta', [CompletionResultType]::ParameterName, 'Add to the metadata of every chunk (ndjson); repeatable')
            [CompletionResult]::new('--progress', '--progress', [CompletionResultType]::ParameterName, 'Whether a status line stands under the output (text on a terminal)')
            [CompletionResult]::new('--pty', '--pty', [CompletionResultType]::ParameterName, 'Run the command on a terminal of its own, so that it shows every line at once')
            [CompletionResult]::new('--size', '--size', [CompletionResultType]::ParameterName, 'The size of that terminal [default: that of runcast''s own, else 80x24]')
            [CompletionResult]::new('--split', '--split', [CompletionResultType]::ParameterName, 'What ends a line: LF; LF, CR or CR LF; NUL')
            [CompletionResult]::new('--max-line', '--max-line', [CompletionResultType]::ParameterName, 'The longest piece handled as one line')
            [CompletionResult]::new('--partial-after', '--partial-after', [CompletionResultType]::ParameterName, 'When an unfinished line goes out, or never')
            [CompletionResult]::new('--mask-env', '--mask-env', [CompletionResultType]::ParameterName, 'Replace the value of a variable by *** wherever it shows; repeatable')
            [CompletionResult]::new('--mask-file', '--mask-file', [CompletionResultType]::ParameterName, 'The same for each line of FILE; repeatable')
            [CompletionResult]::new('--heartbeat', '--heartbeat', [CompletionResultType]::ParameterName, 'Say that the run goes on when nothing else was written for this long (ndjson)')
            [CompletionResult]::new('--on-lag', '--on-lag', [CompletionResultType]::ParameterName, 'What happens when the output is read too slowly: block, drop or drop:SIZE')
            [CompletionResult]::new('--on-disconnect', '--on-disconnect', [CompletionResultType]::ParameterName, 'What happens when the reader of the output goes away')
            [CompletionResult]::new('--record', '--record', [CompletionResultType]::ParameterName, 'Also write every event to FILE, as ndjson does, to be played again')
            [CompletionResult]::new('--result', '--result', [CompletionResultType]::ParameterName, 'Write the result, a JSON object, to a file, fd:N or - (standard output)')
            [CompletionResult]::new('--max-output', '--max-output', [CompletionResultType]::ParameterName, 'How much of each stream the result keeps, or unlimited')
            [CompletionResult]::new('--keep', '--keep', [CompletionResultType]::ParameterName, 'Which part it keeps past that; both is half and half')
            [CompletionResult]::new('--id', '--id', [CompletionResultType]::ParameterName, 'The run''s name; one that is there already is not started again [default: a fresh one]')
            [CompletionResult]::new('--journal', '--journal', [CompletionResultType]::ParameterName, 'How much of its output is kept on disk; past that the oldest goes')
            [CompletionResult]::new('--host', '--host', [CompletionResultType]::ParameterName, 'Do it on DEST, through ssh')
            [CompletionResult]::new('--retry-timeout', '--retry-timeout', [CompletionResultType]::ParameterName, 'How long to try again when the connection breaks')
            [CompletionResult]::new('--remote-runcast', '--remote-runcast', [CompletionResultType]::ParameterName, 'The runcast on DEST, where it is not on the PATH there')
            [CompletionResult]::new('--backend', '--backend', [CompletionResultType]::ParameterName, 'What COMMAND is: a program, a string for sh -c, or a module to call')
            [CompletionResult]::new('--input', '--input', [CompletionResultType]::ParameterName, 'Hand in a JSON value: the value itself, @FILE or - (standard input)')
            [CompletionResult]::new('--max-result', '--max-result', [CompletionResultType]::ParameterName, 'The longest value that is taken back, or unlimited')
            [CompletionResult]::new('--shell', '--shell', [CompletionResultType]::ParameterName, 'Take COMMAND as one string for sh -c: --backend shell')
            [CompletionResult]::new('--no-new-privs', '--no-new-privs', [CompletionResultType]::ParameterName, 'Let no program that the command executes gain privileges')
            [CompletionResult]::new('--clear-env', '--clear-env', [CompletionResultType]::ParameterName, 'Start from PATH, HOME, LANG, USER, TERM and LC_ALL alone')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Show nothing of the output; the result still has it')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Show nothing of the output; the result still has it')
            [CompletionResult]::new('--merge', '--merge', [CompletionResultType]::ParameterName, 'Give both streams one pipe, as 2>&1: their order is then exact')
            [CompletionResult]::new('--strip-ansi', '--strip-ansi', [CompletionResultType]::ParameterName, 'Remove terminal escape sequences from what is shown, kept and recorded')
            [CompletionResult]::new('--no-argv', '--no-argv', [CompletionResultType]::ParameterName, 'Leave the command line out of the events')
            [CompletionResult]::new('-d', '-d', [CompletionResultType]::ParameterName, 'Start the command, print the run''s name and leave it running')
            [CompletionResult]::new('--detach', '--detach', [CompletionResultType]::ParameterName, 'Start the command, print the run''s name and leave it running')
            [CompletionResult]::new('--callable', '--callable', [CompletionResultType]::ParameterName, 'The program takes a value and returns one')
            [CompletionResult]::new('--list-backends', '--list-backends', [CompletionResultType]::ParameterName, 'Show which backends there are, as text or with -f ndjson, and end')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Show this help; --help tells more than -h')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Show this help; --help tells more than -h')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Show the version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Show the version')
            [CompletionResult]::new('attach', 'attach', [CompletionResultType]::ParameterValue, 'Show a detached run from its beginning, then live, and end with its status')
            [CompletionResult]::new('wait', 'wait', [CompletionResultType]::ParameterValue, 'Wait until a detached run is over, print its result, and end with its status')
            [CompletionResult]::new('send', 'send', [CompletionResultType]::ParameterValue, 'Send standard input to a detached run that was started with --stdin open')
            [CompletionResult]::new('signal', 'signal', [CompletionResultType]::ParameterValue, 'Signal the processes of a detached run, or stop it')
            [CompletionResult]::new('runs', 'runs', [CompletionResultType]::ParameterValue, 'List the detached runs, newest first')
            [CompletionResult]::new('forget', 'forget', [CompletionResultType]::ParameterValue, 'Delete detached runs that are over')
            [CompletionResult]::new('replay', 'replay', [CompletionResultType]::ParameterValue, 'Play a recording in its own time, and end with the status that it has recorded')
            break
        }
        'runcast;attach' {
            [CompletionResult]::new('--after', '--after', [CompletionResultType]::ParameterName, 'Show only what comes after chunk number SEQ')
            [CompletionResult]::new('--from', '--from', [CompletionResultType]::ParameterName, 'The same by the lines seen of each stream: stdout=N,stderr=M')
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'What standard output carries')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'What standard output carries')
            [CompletionResult]::new('-p', '-p', [CompletionResultType]::ParameterName, 'Begin each line with TEMPLATE (text) [default template: ''{stream} | '']')
            [CompletionResult]::new('--prefix', '--prefix', [CompletionResultType]::ParameterName, 'Begin each line with TEMPLATE (text) [default template: ''{stream} | '']')
            [CompletionResult]::new('-T', '-T ', [CompletionResultType]::ParameterName, 'Begin each line with its time (text); add time to every chunk (ndjson)')
            [CompletionResult]::new('--timestamps', '--timestamps', [CompletionResultType]::ParameterName, 'Begin each line with its time (text); add time to every chunk (ndjson)')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Whether prefixes and the status line are in colour')
            [CompletionResult]::new('--snapshot-every', '--snapshot-every', [CompletionResultType]::ParameterName, 'The least time from one snapshot to the next (snapshot)')
            [CompletionResult]::new('--stderr-level', '--stderr-level', [CompletionResultType]::ParameterName, 'What log and logfmt call a line of standard error')
            [CompletionResult]::new('--meta', '--meta', [CompletionResultType]::ParameterName, 'Add to the metadata of every chunk (ndjson); repeatable')
            [CompletionResult]::new('--split', '--split', [CompletionResultType]::ParameterName, 'What ended a line when it was run with --split')
            [CompletionResult]::new('--host', '--host', [CompletionResultType]::ParameterName, 'Do it on DEST, through ssh')
            [CompletionResult]::new('--retry-timeout', '--retry-timeout', [CompletionResultType]::ParameterName, 'How long to try again when the connection breaks')
            [CompletionResult]::new('--remote-runcast', '--remote-runcast', [CompletionResultType]::ParameterName, 'The runcast on DEST, where it is not on the PATH there')
            [CompletionResult]::new('--stdin', '--stdin', [CompletionResultType]::ParameterName, 'Also send standard input to the run, and close its own where that ends')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Show nothing of the output; the result still has it')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Show nothing of the output; the result still has it')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Show this help; --help tells more than -h')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Show this help; --help tells more than -h')
            break
        }
        'runcast;wait' {
            [CompletionResult]::new('-t', '-t', [CompletionResultType]::ParameterName, 'Wait no longer than this, then end with 124: the run goes on [default: until it is over]')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'Wait no longer than this, then end with 124: the run goes on [default: until it is over]')
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'text for people, ndjson for programs')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'text for people, ndjson for programs')
            [CompletionResult]::new('--host', '--host', [CompletionResultType]::ParameterName, 'Do it on DEST, through ssh')
            [CompletionResult]::new('--retry-timeout', '--retry-timeout', [CompletionResultType]::ParameterName, 'How long to try again when the connection breaks')
            [CompletionResult]::new('--remote-runcast', '--remote-runcast', [CompletionResultType]::ParameterName, 'The runcast on DEST, where it is not on the PATH there')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Show this help; --help tells more than -h')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Show this help; --help tells more than -h')
            break
        }
        'runcast;send' {
            [CompletionResult]::new('--offset', '--offset', [CompletionResultType]::ParameterName, 'Where in its input these bytes belong; what it already has is skipped')
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'text for people, ndjson for programs')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'text for people, ndjson for programs')
            [CompletionResult]::new('--host', '--host', [CompletionResultType]::ParameterName, 'Do it on DEST, through ssh')
            [CompletionResult]::new('--retry-timeout', '--retry-timeout', [CompletionResultType]::ParameterName, 'How long to try again when the connection breaks')
            [CompletionResult]::new('--remote-runcast', '--remote-runcast', [CompletionResultType]::ParameterName, 'The runcast on DEST, where it is not on the PATH there')
            [CompletionResult]::new('--eof', '--eof', [CompletionResultType]::ParameterName, 'Close the run''s standard input after them')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Show this help; --help tells more than -h')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Show this help; --help tells more than -h')
            break
        }
        'runcast;signal' {
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'text for people, ndjson for programs')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'text for people, ndjson for programs')
            [CompletionResult]::new('--host', '--host', [CompletionResultType]::ParameterName, 'Do it on DEST, through ssh')
            [CompletionResult]::new('--retry-timeout', '--retry-timeout', [CompletionResultType]::ParameterName, 'How long to try again when the connection breaks')
            [CompletionResult]::new('--remote-runcast', '--remote-runcast', [CompletionResultType]::ParameterName, 'The runcast on DEST, where it is not on the PATH there')
            [CompletionResult]::new('--stop', '--stop', [CompletionResultType]::ParameterName, 'Stop the run as a timeout would, with its --signal and --kill-after')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Show this help; --help tells more than -h')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Show this help; --help tells more than -h')
            break
        }
        'runcast;runs' {
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'text for people, ndjson for programs')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'text for people, ndjson for programs')
            [CompletionResult]::new('--host', '--host', [CompletionResultType]::ParameterName, 'Do it on DEST, through ssh')
            [CompletionResult]::new('--retry-timeout', '--retry-timeout', [CompletionResultType]::ParameterName, 'How long to try again when the connection breaks')
            [CompletionResult]::new('--remote-runcast', '--remote-runcast', [CompletionResultType]::ParameterName, 'The runcast on DEST, where it is not on the PATH there')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Show this help; --help tells more than -h')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Show this help; --help tells more than -h')
            break
        }
        'runcast;forget' {
            [CompletionResult]::new('--older-than', '--older-than', [CompletionResultType]::ParameterName, 'Delete those that are over and were started longer ago than this')
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'text for people, ndjson for programs')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'text for people, ndjson for programs')
            [CompletionResult]::new('--host', '--host', [CompletionResultType]::ParameterName, 'Do it on DEST, through ssh')
            [CompletionResult]::new('--retry-timeout', '--retry-timeout', [CompletionResultType]::ParameterName, 'How long to try again when the connection breaks')
            [CompletionResult]::new('--remote-runcast', '--remote-runcast', [CompletionResultType]::ParameterName, 'The runcast on DEST, where it is not on the PATH there')
            [CompletionResult]::new('--finished', '--finished', [CompletionResultType]::ParameterName, 'Delete all that are over')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Show this help; --help tells more than -h')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Show this help; --help tells more than -h')
            break
        }
        'runcast;replay' {
            [CompletionResult]::new('--speed', '--speed', [CompletionResultType]::ParameterName, 'How many times as fast as it was, or max: without waiting')
            [CompletionResult]::new('--idle-limit', '--idle-limit', [CompletionResultType]::ParameterName, 'The longest pause between two lines; 0 is any [default: any]')
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'What standard output carries')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'What standard output carries')
            [CompletionResult]::new('-p', '-p', [CompletionResultType]::ParameterName, 'Begin each line with TEMPLATE (text) [default template: ''{stream} | '']')
            [CompletionResult]::new('--prefix', '--prefix', [CompletionResultType]::ParameterName, 'Begin each line with TEMPLATE (text) [default template: ''{stream} | '']')
            [CompletionResult]::new('-T', '-T ', [CompletionResultType]::ParameterName, 'Begin each line with its time (text); add time to every chunk (ndjson)')
            [CompletionResult]::new('--timestamps', '--timestamps', [CompletionResultType]::ParameterName, 'Begin each line with its time (text); add time to every chunk (ndjson)')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Whether prefixes and the status line are in colour')
            [CompletionResult]::new('--snapshot-every', '--snapshot-every', [CompletionResultType]::ParameterName, 'The least time from one snapshot to the next (snapshot)')
            [CompletionResult]::new('--stderr-level', '--stderr-level', [CompletionResultType]::ParameterName, 'What log and logfmt call a line of standard error')
            [CompletionResult]::new('--meta', '--meta', [CompletionResultType]::ParameterName, 'Add to the metadata of every chunk (ndjson); repeatable')
            [CompletionResult]::new('--split', '--split', [CompletionResultType]::ParameterName, 'What ended a line when it was run with --split')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Show nothing of the output; the result still has it')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Show nothing of the output; the result still has it')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Show this help; --help tells more than -h')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Show this help; --help tells more than -h')
            break
        }
    })

    $completions.Where{ $_.CompletionText -like "$wordToComplete*" } |
        Sort-Object -Property ListItemText
}
