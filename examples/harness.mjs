#!/usr/bin/env node
// Runs a command through runcast, shows its lines live, aborts it when told to, and returns the result.
//
//     harness.mjs [--abort-at TEXT] COMMAND [ARG]...
//
// It ends with the status of the run. No other package than Node's own is needed.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

/**
 * Returns the result of the run, an object; throws if the outcome is unknown.
 * `onLine(kind, text)` is called for each line, and may return true to abort the run.
 */
export async function run(command, onLine, { runcast = 'runcast', options = [] } = {}) {
  const child = spawn(runcast, ['-f', 'ndjson', ...options, '--', ...command], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise((resolve, reject) => child.on('error', reject).on('close', resolve));
  ended.catch(() => {});
  let result;
  // A line ends with LF alone: what else may end one stands escaped in the JSON.
  for await (const line of createInterface({ input: child.stdout, crlfDelay: Infinity })) {
    const event = JSON.parse(line);
    // Whatever else there is may be passed over.
    if (event.op === 'chunk' && onLine(event.kind, event.content)) {
      // runcast passes TERM on, and KILL follows where it has to; the result comes all the same.
      child.kill('SIGTERM');
    } else if (event.op === 'result') {
      result = event;
    }
  }
  await ended;
  if (!result) throw new Error('runcast was killed: what became of the command is unknown');
  return result;
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  let words = process.argv.slice(2);
  const abortAt = words[0] === '--abort-at' ? words[1] : undefined;
  if (abortAt !== undefined) words = words.slice(2);
  const result = await run(words, (kind, text) => {
    process.stdout.write(`${kind}: ${text}${text.endsWith('\n') ? '' : '\n'}`);
    return abortAt !== undefined && text.includes(abortAt);
  });
  const { exit_code, signal, stopped_by, duration, error } = result;
  console.error('result:', error?.message ??
    `exit code ${exit_code}, signal ${signal}, stopped by ${stopped_by}, ${duration.toFixed(1)} s`);
  process.exitCode = result.status;
}
