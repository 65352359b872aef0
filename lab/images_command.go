//go:build linux

package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/sei-operator/sei-operator/lab/build"
	"github.com/sei-operator/sei-operator/lab/images"
)

// labRepository begins the names of the lab's own images: no registry has them.
const (
	labRepository = "sei-operator.lab"
	labTag        = "dev"
)

func imagesCommand() *cobra.Command {
	maker := images.Maker{}
	command := &cobra.Command{
		Use:   "images",
		Short: "Write the images of the project as OCI archives",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			ctx, stop := interruptible(command.Context())
			defer stop()
			for _, recipe := range images.Catalogue() {
				made, err := maker.Make(ctx, recipe)
				if err != nil {
					return err
				}
				fmt.Fprintf(command.OutOrStdout(), "%s\t%s\n", made.Reference, made.Archive)
			}
			return nil
		},
	}
	command.Flags().StringVar(&maker.Out, "out", ".", "directory of the archives")
	command.Flags().StringVar(&maker.Repository, "repository", labRepository, "what the names of the images begin with")
	command.Flags().StringVar(&maker.Tag, "tag", labTag, "version of the images, which their programs tell too")
	return command
}

// allImages are what every lab that people use has.
func allImages() []images.Recipe {
	return append(images.Catalogue(), images.Pause, images.StateSize, images.NextSidecar())
}

// makeImages makes images in the cache, where those of different copies of the
// repository are kept apart. Of several processes at once one makes them and the others
// wait for it: it writes programs where the others would read them.
func makeImages(ctx context.Context, recipes []images.Recipe) ([]images.Made, error) {
	root, err := build.CacheRoot()
	if err != nil {
		return nil, err
	}
	repository, err := images.Repository()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(root, "images", fmt.Sprintf("%x", sha256.Sum256([]byte(repository)))[:8])
	claim, err := build.Claim(ctx, dir, func(holder int) {
		fmt.Fprintf(os.Stderr, "waiting for process %d, which is making images of the same tree\n", holder)
	})
	if err != nil {
		return nil, err
	}
	defer claim.Unlock()
	maker := images.Maker{Repository: labRepository, Tag: labTag, Out: dir, Programs: filepath.Join(dir, "programs")}
	started := time.Now()
	var all []images.Made
	for _, recipe := range recipes {
		made, err := maker.Make(ctx, recipe)
		if err != nil {
			return nil, err
		}
		all = append(all, made)
	}
	fmt.Fprintf(os.Stderr, "images made: %d, in %.1f s\n", len(all), time.Since(started).Seconds())
	return all, nil
}

func archives(made []images.Made) []string {
	var paths []string
	for _, image := range made {
		paths = append(paths, image.Archive)
	}
	return paths
}
