//! The allocator's ways, where the C library lets us choose.

/// Has all threads take their memory from one place. Each thread of ours allocates a few times in its life, so
/// a place of its own, which the C library would set up for each, is only time lost at the start.
///
/// To be called before the first thread is made.
pub(super) fn share_one_arena() {
    #[cfg(target_env = "gnu")]
    // Where it is refused each thread has its own, as before.
    // SAFETY: plain numbers, and no other thread that could be in the allocator.
    let _ = unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
}
