// Calls the default export of a module with the input, and leaves what it returns as the result.
//
//     node FOLDER/start.mjs FILE ARG...
//
// The module's source is the file `module` of the same folder. FILE is where it came from, or empty: then it
// is taken for a file of the folder that it is started in, so that it imports what one there would.
//
// Nothing of the module is called from here directly, but as a reaction to a promise that nobody here awaits:
// so a stack is the module's alone.

import { readFileSync, realpathSync, writeFileSync } from 'node:fs';
import nodeModule from 'node:module';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { types } from 'node:util';
import { isMainThread } from 'node:worker_threads';

// What Node asks when it imports: the module is not where its address says, anything else is. Where it asks
// on a thread of its own, this file is loaded there once more.
let address;

export const initialize = (data) => {
  address = data;
};

export const resolve = (specifier, context, next) =>
  specifier === address ? { url: address, format: 'module', shortCircuit: true } : next(specifier, context);

export const load = (url, context, next) =>
  url === address
    ? { source: readFileSync(new URL('module', import.meta.url), 'utf8'), format: 'module', shortCircuit: true }
    : next(url, context);

// On a thread of its own that takes some 50 ms, so it is left out where Node takes the file for a module anyway.
function hook(data) {
  if (nodeModule.registerHooks) {
    initialize(data);
    nodeModule.registerHooks({ resolve, load });
  } else {
    nodeModule.register(import.meta.url, { data });
  }
}

function addressOf(file) {
  if (file === '') {
    return new URL('[module]', pathToFileURL(`${process.cwd()}/`)).href;
  }
  let real = file;
  try {
    real = realpathSync(file);
  } catch {
    // It is gone by now; its name still tells where its neighbours are.
  }
  return pathToFileURL(real).href;
}

// Node's own exit code for a module that waits for what never comes.
const STATUS_NEVER_SETTLED = 13;

// The module may put others in their place.
const { parse, stringify } = JSON;

// What is wrong with the module by its contract, and no error of its own code.
class Fault extends TypeError {}

function valueOf(exported, input) {
  const entry = exported.default;
  if (typeof entry === 'function') {
    return Promise.resolve(input).then(entry);
  }
  const names = Object.keys(exported);
  if (input !== undefined && names.length > 0 && !names.includes('default')) {
    throw new Fault(`there is no default export to call with the input, only ${names.join(', ')}`);
  }
  return entry;
}

// Objects of which JSON.stringify would make {}, or lists of names.
const kinds = [
  types.isMap, types.isSet, types.isWeakMap, types.isWeakSet, types.isMapIterator, types.isSetIterator,
  types.isPromise, types.isGeneratorObject, types.isRegExp, types.isNativeError, types.isAnyArrayBuffer,
  types.isArrayBufferView,
];

// Whether it is one of Node's own kinds of object, of which JSON.stringify would make {} too.
function isClosed(value, kind) {
  return kind !== 'Object' && kind !== 'Array' && Object.keys(value).length === 0 && !types.isBoxedPrimitive(value);
}

// Why a value cannot be in JSON. `value` may be an object that stands for a primitive.
function objection(value, way) {
  const plain = types.isBoxedPrimitive(value) ? value.valueOf() : value;
  switch (typeof plain) {
    case 'number':
      return Number.isFinite(plain) ? undefined : String(plain);
    case 'bigint':
      return 'a BigInt';
    case 'function':
      return 'a function';
    case 'symbol':
      return 'a Symbol';
    case 'object': {
      if (value === null) {
        return undefined;
      }
      const kind = Object.prototype.toString.call(value).slice(8, -1);
      if (kinds.some((is) => is(value)) || isClosed(value, kind)) {
        return `a ${kind}`;
      }
      return way.some((step) => step.object === value) ? 'one that it is in' : undefined;
    }
    default:
      return undefined;
  }
}

function asJson(value) {
  // The objects on the way to what is being looked at, and by which name each is in the one before.
  const way = [];
  return stringify(value, function look(key, part) {
    while (way.length > 0 && way.at(-1).object !== this) {
      way.pop();
    }
    // Its toJSON has made null of it.
    const isNoTime = types.isDate(this[key]) && Number.isNaN(this[key].getTime());
    const why = isNoTime ? 'an invalid Date' : objection(part, way);
    if (why !== undefined) {
      const place = [...way.map((step) => step.key), key].filter((name) => name !== '').join('.');
      throw new Fault(`the value is not JSON: ${place === '' ? 'it' : place} is ${why}`);
    }
    if (typeof part === 'object' && part !== null) {
      way.push({ object: part, key });
    }
    return part;
  });
}

function tell(fault, url) {
  process.stderr.write(`TypeError: ${fault}\n    at ${url}\n`);
}

function start() {
  const { RUNCAST_INPUT: inputFile, RUNCAST_RESULT: resultFile } = process.env;
  const url = addressOf(process.argv[2]);
  process.argv.splice(1, 2, fileURLToPath(url));
  const input = inputFile === undefined ? undefined : parse(readFileSync(inputFile, 'utf8'));
  let isOver = false;
  process.on('beforeExit', () => {
    if (!isOver) {
      isOver = true;
      tell('it waits for a promise that never settles', url);
      process.exitCode ||= STATUS_NEVER_SETTLED;
    }
  });
  if (!url.endsWith('.mjs')) {
    hook(url);
  }
  import(url)
    .then((exported) => valueOf(exported, input))
    .then((value) => {
      isOver = true;
      const json = asJson(value);
      if (json !== undefined) {
        writeFileSync(resultFile, json);
      }
    })
    .catch((error) => {
      isOver = true;
      // Also where NODE_OPTIONS says that what is thrown here is only to be told.
      process.exitCode ||= 1;
      if (!(error instanceof Fault)) {
        throw error;
      }
      tell(error.message, url);
    });
}

if (isMainThread) {
  start();
}
