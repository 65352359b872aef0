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

// labMaker keeps the images of different copies of the repository apart.
func labMaker() (images.Maker, error) {
	root, err := build.CacheRoot()
	if err != nil {
		return images.Maker{}, err
	}
	repository, err := images.Repository()
	if err != nil {
		return images.Maker{}, err
	}
	dir := filepath.Join(root, "images", fmt.Sprintf("%x", sha256.Sum256([]byte(repository)))[:8])
	return images.Maker{Repository: labRepository, Tag: labTag, Out: dir, Programs: filepath.Join(dir, "programs")}, nil
}

// labImages are what every lab has.
func labImages(ctx context.Context) ([]images.Made, error) {
	maker, err := labMaker()
	if err != nil {
		return nil, err
	}
	started := time.Now()
	var all []images.Made
	for _, recipe := range append(images.Catalogue(), images.Pause, images.StateSize) {
		made, err := maker.Make(ctx, recipe)
		if err != nil {
			return nil, err
		}
		all = append(all, made)
	}
	fmt.Fprintf(os.Stderr, "made %d images in %.1f s\n", len(all), time.Since(started).Seconds())
	return all, nil
}

func archives(made []images.Made) []string {
	var paths []string
	for _, image := range made {
		paths = append(paths, image.Archive)
	}
	return paths
}
