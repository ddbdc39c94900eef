//! One run from beginning to end: in the foreground ([`run`]), or kept for others to look at (`keep`).

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::backend::launch::Launch;
use crate::engine::channel::{self, Message, Notice, Shared, ToPump, ToReader, ToSupervisor};
use crate::engine::console::Console;
use crate::engine::ending::{Ending, SoFar};
use crate::engine::processes::Processes;
use crate::engine::pump::Pump;
use crate::engine::reader::Reader;
use crate::engine::show;
use crate::engine::spawn::{self, Command};
use crate::engine::supervisor::{Links, Supervisor};
use crate::engine::typing::Typist;
use crate::model::error::Error;
use crate::model::event::{Started, Stream, VERSION, argv_fields};
use crate::model::outcome::Exit;
use crate::model::run_id::RunId;
use crate::model::signal::Signal;
use crate::model::spec::{Capture, Display, Format, Pty, ResultDestination, Spec, Stdin};
use crate::sink::destination::Patience;
use crate::sink::result_file::ResultFile;
use crate::sink::{Sink, message};
use crate::sys::descriptors::PipeGrowth;
use crate::sys::interrupt;
use crate::sys::shared_folder::are_one_file;
use crate::sys::signals;
use crate::sys::tree::{Tree, is_proc_ours};

/// Runs a command and shows it, to the end, and returns how runcast is to end.
///
/// A plan that failed is shown as a run that never started: whoever reads the result gets one.
#[must_use]
pub fn run(plan: Result<Spec, Error>, display: &Display) -> Exit {
    let patience = Arc::new(Patience::default());
    let capture = plan.as_ref().map_or_else(|_| Capture::default(), |spec| spec.capture.clone());
    let limits = plan.as_ref().ok().map(|spec| &spec.limits);
    let mut sink = match show::make_sink(display, &capture, limits, &patience) {
        Ok(sink) => sink,
        Err(error) => return fail(&error),
    };
    // Before any other descriptor of ours is opened, so that `fd:N` cannot name one of those.
    let (mut result_file, mut opened) = match open_result(display) {
        Ok(file) => (file, Ok(())),
        Err(error) => (None, Err(error)),
    };
    if opened.is_ok() {
        opened = are_apart(plan.as_ref().ok(), display, result_file.as_ref());
    }
    if opened.is_ok() {
        match show::recorded(sink, display, &capture, &patience) {
            Ok(both) => sink = both,
            Err((error, shown)) => (sink, opened) = (shown, Err(error)),
        }
    }
    let id = RunId::fresh();
    let ending =
        opened.and_then(|()| supervise(&plan?, &id, display, &patience, &mut *sink, |_, _| Ok(())));
    let ending = ending.unwrap_or_else(|error| Ending::of_failure(error, capture.mask.clone()));
    ending.conclude(&mut *sink, &mut result_file, display, &patience)
}

/// Shows a failure in this format and on standard error, and returns its exit status.
#[must_use]
pub fn show_failure(error: Error, format: Format) -> u8 {
    show_failure_after(error, format, None)
}

/// The same of one that came when something was seen of a run.
pub(crate) fn show_failure_after(error: Error, format: Format, seen: Option<SoFar>) -> u8 {
    let patience = Arc::new(Patience::default());
    let display = Display { format, ..Display::default() };
    match show::make_sink(&display, &Capture::default(), None, &patience) {
        Ok(mut sink) => {
            let ending = Ending::of_failure(error, None);
            let ending = match seen {
                Some(seen) => ending.after(seen),
                None => ending,
            };
            ending.conclude(&mut *sink, &mut None, &display, &patience).status()
        }
        Err(_) => fail(&error).status(),
    }
}

/// Runs a command that others look at, to the end, with its events in `sink`, which is no matter of anybody's
/// patience. Once it is started, `on_started` gets what it can be spoken to through; where that fails, the run is
/// killed.
///
/// # Errors
///
/// Where the command could not be started.
pub(crate) fn keep(
    spec: &Spec,
    id: &RunId,
    display: &Display,
    sink: Box<dyn Sink>,
    on_started: impl FnOnce(Handle, &Started) -> Result<(), Error>,
) -> Result<(), Error> {
    let patience = Arc::new(Patience::default());
    let mut result_file = open_result(display)?;
    are_apart(Some(spec), display, result_file.as_ref())?;
    let mut sink =
        show::recorded(sink, display, &spec.capture, &patience).map_err(|(error, _)| error)?;
    let ending = supervise(spec, id, display, &patience, &mut *sink, on_started)?;
    // There is nobody whom the status could tell anything that the result does not.
    let _ = ending.conclude(&mut *sink, &mut result_file, display, &patience);
    Ok(())
}

/// What a run that was started can be spoken to through.
#[derive(Debug)]
pub struct Handle {
    supervisor: ToSupervisor,
    /// The writing end of its standard input, where others may write into that.
    pub(crate) stdin: Option<OwnedFd>,
}

impl Handle {
    /// One of a run that is none: what it is told is let fall.
    ///
    /// # Errors
    ///
    /// Where there is no descriptor for it.
    #[cfg(any(test, fuzzing))]
    pub fn of_nothing() -> io::Result<Self> {
        let (supervisor, _) = channel::to_supervisor()?;
        Ok(Self { supervisor, stdin: None })
    }

    /// Sends a signal to its processes.
    pub(crate) fn signal(&self, signal: Signal) {
        self.supervisor.send(Notice::Signal(signal));
    }

    /// Does what it would do if this process had received the signal.
    pub(crate) fn receive(&self, signal: Signal) {
        self.supervisor.send(Notice::Received(signal));
    }

    /// Stops it as a timeout would.
    pub(crate) fn stop(&self) {
        self.supervisor.send(Notice::Stop);
    }
}

/// Says what failed, where there is nothing to show it in.
fn fail(error: &Error) -> Exit {
    message::say_error(error, &Arc::default());
    Exit::Status(error.status())
}

/// Makes sure that what is recorded overwrites neither what the command reads nor the result.
fn are_apart(
    spec: Option<&Spec>,
    display: &Display,
    result_file: Option<&ResultFile>,
) -> Result<(), Error> {
    let Some(record) = &display.record else { return Ok(()) };
    let refused = |why: &str| {
        Err(Error::File { option: "--record", path: record.into(), why: why.to_owned() })
    };
    if let Some(Stdin::File(path)) = spec.map(|spec| &spec.stdin)
        && are_one_file(path, record)
    {
        return refused("it is the file of --stdin");
    }
    // By its name where it is not there yet.
    let has_its_name =
        matches!(&display.result, Some(ResultDestination::File(path)) if path == record);
    if has_its_name || result_file.is_some_and(|file| file.is_at(record)) {
        return refused("it is the file of --result");
    }
    Ok(())
}

/// Where the result goes beside the sink.
pub(crate) fn open_result(display: &Display) -> Result<Option<ResultFile>, Error> {
    match &display.result {
        None | Some(ResultDestination::Stdout) => Ok(None),
        Some(ResultDestination::File(path)) => ResultFile::at_path(path).map(Some),
        Some(ResultDestination::Descriptor(number)) => ResultFile::at_descriptor(*number).map(Some),
    }
}

/// Starts the command and the threads, and pumps until all is over.
fn supervise(
    spec: &Spec,
    id: &RunId,
    display: &Display,
    patience: &Arc<Patience>,
    sink: &mut dyn Sink,
    on_started: impl FnOnce(Handle, &Started) -> Result<(), Error>,
) -> Result<Ending, Error> {
    // All that can fail before there is a command comes before it.
    let watched = show::watched(spec.streams, display)?;
    let (to_pump, inbox) = channel::to_pump();
    let (to_supervisor, notices) =
        channel::to_supervisor().map_err(|errno| failed("eventfd")(errno.into()))?;
    // A fifo may have to be waited for here, so our signals still have their default actions.
    let (stdin, stdin_end) = spawn::open_stdin(&spec.stdin)?;
    let console = Console::open(spec, display)?;
    let session = console.session();
    let (signals, to_reset) = signals::take(session).map_err(failed("signals"))?;
    interrupt::prepare().map_err(failed("signals"))?;
    let tree = Tree::prepare(session).map_err(failed("subreaper"))?;
    if spec.limits.max_memory_bytes.is_some() && !is_proc_ours() {
        let source = io::Error::other("/proc does not show the processes of this pid namespace");
        return Err(Error::Limit { option: "--max-memory".to_owned(), source });
    }

    let launch = Launch::prepare(spec)?;
    // From here on every way out puts our terminal back.
    let mut restore = console.take_terminal();
    let mut command = spawn::spawn(launch.program(), spec, stdin, &console, &to_reset)?;
    let typed = command.typed.take();
    let typist = console.ptys().and_then(|ptys| ptys.typist(typed));
    let shared = Arc::new(Shared::new(command.start, Arc::clone(patience)));
    shared.pump.register();
    let started = display.needs_started().then(|| started(spec, id, display, &command));
    let mut if_threads_fail = Processes::new(command.pid, session, tree.clone());
    let processes = Processes::new(command.pid, session, tree);
    let (pump, pipes) = (to_pump.clone(), command.pipes);
    let shared_too = Arc::clone(&shared);
    let links = Links { signals, notices, pump, shared: shared_too, pipes, watched, console };
    // Without its threads nobody would see to the command's end.
    let readers = start_threads(spec, links, processes, &to_supervisor)
        .and_then(|readers| start_typist(typist, &to_pump).map(|()| readers))
        .inspect_err(|_| if_threads_fail.abandon())?;

    let handle = Handle { supervisor: to_supervisor.clone(), stdin: stdin_end };
    let mut pump = Pump::new(sink, shared, to_supervisor.clone(), readers, &spec.capture, display);
    if let Some(started) = &started
        && let Err(error) = on_started(handle, started)
    {
        pump.fail(error);
    }
    let report = pump.run(&inbox, started);
    if report.outcome.ended_by_itself() {
        restore.command_ended_by_itself();
    }
    let (supervisor, mask) = (Some(to_supervisor), spec.capture.mask.clone());
    let returned = launch.finish(&report.outcome);
    let mut ending = Ending { report, value: None, supervisor, mask };
    ending.take_value(returned, patience);
    Ok(ending)
}

/// Starts who types into the command's terminal, where it has one.
fn start_typist(typist: Option<Typist>, to_pump: &ToPump) -> Result<(), Error> {
    let Some(typist) = typist else { return Ok(()) };
    let pump = to_pump.clone();
    start_thread("typist", to_pump.clone(), move || typist.run(&pump)).map(drop)
}

/// Starts the readers and the supervisor, and returns the ways back to the readers.
fn start_threads(
    spec: &Spec,
    links: Links,
    processes: Processes,
    to_supervisor: &ToSupervisor,
) -> Result<Vec<ToReader>, Error> {
    let readers = start_readers(spec, &links.pipes, &links.shared, &links.pump, to_supervisor)?;
    let (pump, interrupted) = (links.pump.clone(), to_supervisor.clone());
    let supervisor = Supervisor::new(spec, processes, links);
    start_thread("supervisor", pump, move || {
        supervisor.run(move || interrupted.send(Notice::Interrupted));
    })?;
    Ok(readers)
}

fn failed(step: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::Spawn { step, source }
}

fn start_readers(
    spec: &Spec,
    pipes: &[Arc<OwnedFd>],
    shared: &Arc<Shared>,
    to_pump: &ToPump,
    to_supervisor: &ToSupervisor,
) -> Result<Vec<ToReader>, Error> {
    let start = |(stream, pipe): (Stream, &Arc<OwnedFd>)| {
        let (back, blocks) = channel::blocks();
        let reader = Reader {
            stream,
            is_terminal: spec.pty != Pty::No,
            pipe: Arc::clone(pipe),
            blocks,
            shared: Arc::clone(shared),
            pump: to_pump.clone(),
            supervisor: to_supervisor.clone(),
            growth: PipeGrowth::default(),
            line_end: spec.capture.split.line_end(),
            is_in_line: false,
            output_limit: spec.limits.output_limit_bytes,
        };
        let thread = start_thread(stream.as_str(), to_pump.clone(), move || reader.run())?;
        Ok(ToReader::new(back, thread))
    };
    Stream::ALL.into_iter().zip(pipes).map(start).collect()
}

/// Starts a thread which, should it panic, tells the pump: the pump would wait for it for ever.
fn start_thread(
    name: &str,
    pump: ToPump,
    work: impl FnOnce() + Send + 'static,
) -> Result<thread::Thread, Error> {
    struct Alarm(ToPump);
    impl Drop for Alarm {
        fn drop(&mut self) {
            if thread::panicking() {
                self.0.send(Message::Died);
            }
        }
    }
    let alarm = Alarm(pump);
    let made = thread::Builder::new().name(name.to_owned()).spawn(move || {
        let _alarm = alarm;
        work();
    });
    made.map(|handle| handle.thread().clone()).map_err(failed("thread"))
}

fn started(spec: &Spec, id: &RunId, display: &Display, command: &Command) -> Started {
    let hide = |text: String| match &spec.capture.mask {
        Some(mask) => mask.text(&text).into_owned(),
        None => text,
    };
    let words: Vec<OsString> = match &spec.capture.mask {
        Some(mask) => spec
            .argv
            .iter()
            .map(|word| OsString::from_vec(mask.bytes(word.as_bytes()).into_owned()))
            .collect(),
        None => Vec::new(),
    };
    let (argv, argv_base64) =
        argv_fields(if spec.capture.mask.is_some() { &words } else { &spec.argv });
    let directory = spec.directory.as_deref().unwrap_or(Path::new("."));
    Started {
        v: VERSION,
        id: id.to_string(),
        pid: command.pid,
        argv: display.show_argv.then_some(argv),
        argv_base64: argv_base64.filter(|_| display.show_argv),
        cwd: directory.canonicalize().ok().map(|path| hide(path.to_string_lossy().into_owned())),
        time: command.clock.utc(Duration::ZERO),
        clock: command.clock,
    }
}
