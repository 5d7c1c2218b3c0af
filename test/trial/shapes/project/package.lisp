;;; SPDX-License-Identifier: GPL-3.0-or-later

(defpackage :shapes
  (:use :cl)
  (:export #:shape #:square #:circle #:labelled #:labelled-square #:labelled-circle
           #:side #:radius #:label #:area #:scale #:describe-shape))
