package supervisor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// ErrInUse is that another supervisor serves the socket.
var ErrInUse = errors.New("another supervisor serves this socket")

// listen opens the socket. A lock that dies with its holder tells a live
// supervisor from a file that a killed one left behind. The socket is made under
// another name and renamed, so that nobody ever finds it with other permissions,
// and clients find the old one or the new one.
func listen(ctx context.Context, path string) (net.Listener, func(), error) {
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot lock the socket: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, nil, fmt.Errorf("%s: %w", path, ErrInUse)
		}
		return nil, nil, fmt.Errorf("cannot lock the socket: %w", err)
	}
	listener, err := bind(ctx, path)
	if err != nil {
		_ = lock.Close()
		return nil, nil, fmt.Errorf("cannot listen on %s: %w", path, err)
	}
	return listener, func() {
		_ = os.Remove(path) // A file that stays is replaced by the next.
		_ = lock.Close()
	}, nil
}

func bind(ctx context.Context, path string) (net.Listener, error) {
	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "unix", fresh)
	if err != nil {
		return nil, err
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(fresh, 0o600), os.Rename(fresh, path)); err != nil {
		_ = listener.Close()
		return nil, err
	}
	return listener, nil
}
