complete -c runcast -s t -l timeout -d 'Stop the command this long after it started; 0 is never [default: never]' -r -f
complete -c runcast -l idle-timeout -d 'Stop it when it has written nothing for this long; 0 is never [default: never]' -r -f
complete -c runcast -s s -l signal -d 'What stopping sends first, to every process of the run' -r -f
complete -c runcast -s k -l kill-after -d 'How long after that KILL follows; 0 is KILL at once [default: 2s]' -r -f
complete -c runcast -s r -l rlimit -d 'Set a resource limit of the command; repeatable, or several joined by commas' -r -f
complete -c runcast -l max-memory -d 'Kill the run when all its processes use more memory than this [default: none]' -r -f
complete -c runcast -l output-limit -d 'Stop the run when it has written more than this [default: none]' -r -f
complete -c runcast -l map-signal -d 'Forward TO, or none, in place of a received FROM; repeatable' -r -f
complete -c runcast -l drain -d 'How long to wait for streams still held after the command ended' -r -f
complete -c runcast -l leftover -d 'What becomes of processes still alive after that' -r -f -a "leave\t''
kill\t''
wait\t''"
complete -c runcast -l nice -d 'Add N to the command\'s nice value' -r -f
complete -c runcast -l umask -d 'Set the command\'s file mode creation mask' -r -f
complete -c runcast -s C -l chdir -d 'Start the command in DIR' -r -f -a "(__fish_complete_directories)"
complete -c runcast -s e -l env -d 'Set a variable, or take it over from runcast\'s own environment; repeatable' -r -f
complete -c runcast -l env-file -d 'Set the variables of FILE, a NAME=VALUE line each; repeatable' -r -F
complete -c runcast -l unset -d 'Remove a variable; repeatable' -r -f
complete -c runcast -l stdin -d 'What the command reads: inherit, null or a file' -r -F
complete -c runcast -s f -l format -d 'What standard output carries' -r -f -a "text\t''
ndjson\t''
snapshot\t''
cri\t''
log\t''
logfmt\t''"
complete -c runcast -l split -d 'What ends a line: LF; LF, CR or CR LF; NUL' -r -f -a "lf\t''
cr\t''
nul\t''"
complete -c runcast -l max-line -d 'The longest piece handled as one line' -r -f
complete -c runcast -l partial-after -d 'When an unfinished line goes out, or never' -r -f
complete -c runcast -l meta -d 'Add to the metadata of every chunk (ndjson); repeatable' -r -f
complete -c runcast -l snapshot-every -d 'The least time from one snapshot to the next (snapshot)' -r -f
complete -c runcast -l heartbeat -d 'Say that the run goes on when nothing else was written for this long (ndjson)' -r -f
complete -c runcast -l stderr-level -d 'What log and logfmt call a line of standard error' -r -f -a "debug\t''
info\t''
warn\t''
error\t''"
complete -c runcast -l on-lag -d 'What happens when the output is read too slowly: block or drop[:SIZE]' -r -f
complete -c runcast -l on-disconnect -d 'What happens when the reader of the output goes away' -r -f -a "stop\t''
continue\t''"
complete -c runcast -l record -d 'Also write every event to FILE, as ndjson does, to be played again' -r -F
complete -c runcast -l result -d 'Write the result, a JSON object, to a file, fd:N or - (standard output)' -r -F
complete -c runcast -l max-output -d 'How much of each stream the result keeps, or unlimited' -r -f
complete -c runcast -l keep -d 'Which part it keeps past that; both is half and half' -r -f -a "head\t''
tail\t''
both\t''"
complete -c runcast -l shell -d 'Take COMMAND as one string for sh -c'
complete -c runcast -l no-new-privs -d 'Let no program that the command executes gain privileges'
complete -c runcast -l clear-env -d 'Start from PATH, HOME, LANG, USER, TERM and LC_ALL alone'
complete -c runcast -s q -l quiet -d 'Show nothing of the output; the result still has it'
complete -c runcast -l merge -d 'Give both streams one pipe, as 2>&1: their order is then exact'
complete -c runcast -l no-argv -d 'Leave the command line out of the events'
complete -c runcast -s h -l help -d 'Show this help; --help tells more than -h'
complete -c runcast -s V -l version -d 'Show the version'
