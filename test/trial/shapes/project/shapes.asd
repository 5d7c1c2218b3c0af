;;; SPDX-License-Identifier: GPL-3.0-or-later

(defsystem "shapes"
  :serial t
  :components ((:file "package") (:file "shapes") (:file "labels"))
  :in-order-to ((test-op (test-op "shapes/test"))))

(defsystem "shapes/test"
  :depends-on ("shapes")
  :components ((:file "test"))
  :perform (test-op (operation component)
             (symbol-call :shapes-test :run)))
