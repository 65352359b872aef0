// Package supervisor is the parent of seid in the seid container, and the client
// the sidecar uses to talk to it.
//
// The supervisor starts seid when the sidecar says so, stops and restarts it in
// the same container, and otherwise stays out of the way: output passes byte for
// byte, a termination is passed on, and an exit nobody asked for ends the supervisor
// with seid's code, so that Kubernetes sees what it would see without us.
//
// # Who decides
//
// Deciding is pure: SafeToStop says whether a stop is safe, mismatch whether the
// keys are the approved ones, causeOf what an exit meant. Acting is thin.
//
// # Requests are safe to repeat
//
// Every seid that is started has an instance id. A stop or restart names the
// instance it means; when another one runs by now, the request already happened
// and is answered with the state. A restart that has signalled goes through to
// its start even when the caller is gone. Where no seid lives a restart starts none:
// between the caller's look and its request a hold may have been answered. For the same
// reason a start says how many stops its caller knew of, and is refused after another.
//
// The latest wish wins, and the latest is the one that arrived last, whichever
// was able to act first: a stop that comes while a restart is stopping seid
// cancels the start, and a request that waits until stopping is safe is refused
// with Superseded when the opposite was asked for meanwhile. A request that was
// refused before it did anything, or whose caller left before, counts no more.
//
// # One signal, and never SIGKILL
//
// A stop sends SIGTERM once. seid takes its handler away with the first signal, so a
// second one would end it in the middle of closing its stores, which takes minutes on
// a large node. Only a seed gets a second one: one version hangs without it, and a
// seed has nothing to tear. At the end of the grace the request fails with
// StillRunning, and seid goes on closing in state stopping. When it ends that is the
// requested stop: the supervisor stays, in state stopped, or starts the next one if
// that is the latest wish. Nothing takes a signal back.
//
// # Keys
//
// seid is started only with the keys that were approved. A validator (the mode in
// config.toml) needs an approval that names its signing key.
//
// # Signals
//
// seid gets a process group of its own and is signalled alone. A signal meant for
// the supervisor's group (an interrupt at a terminal) therefore reaches seid only
// through the supervisor, which first waits until stopping is safe. Signals that seid
// does not handle are not passed on: they would end it where it stands.
//
// There is no parent-death signal. It would fire when the thread that forked
// ends, not only the process, and it would kill seid at a moment nobody chose.
// When the supervisor is killed as PID 1 the kernel ends the container with it;
// elsewhere seid goes on unsupervised, and the lock on its database keeps a
// second one from starting beside it.
package supervisor
