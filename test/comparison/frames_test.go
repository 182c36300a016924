package comparison

// frames: the frames of window functions.
var frames = Generator{Name: "frames", Fixed: Positioned("frames")}
