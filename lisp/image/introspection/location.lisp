;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Where definitions are. Emacs turns these places into files and lines: it may be on another
;;; machine, and the text may be in a buffer that nobody saved.

(cl:in-package "AGENT-Q-IMAGE")

(defun place-plist (place)
  (case (first place)
    (:file (list :file (second place)))
    (:buffer (list :buffer (second place)))
    (:buffer-and-file (list :buffer (second place) :file (third place)))
    (:zip (list :file (second place)))
    (:source-form (list :source (second place)))))

(defun position-plist (position)
  (case (first position)
    (:position (list :position (second position)))
    (:offset (list :position (+ (second position) (or (third position) 0))))
    (:line (list :line (second position)))))

(defun location-plist (location)
  "LOCATION, as the client's backend writes it, as a property list, or NIL when it tells nothing."
  (guarded (lambda ()
             (when (and (consp location) (eq (first location) :location))
               (destructuring-bind (place position &optional hints) (rest location)
                 (let ((place (place-plist place)))
                   (when place
                     (append place
                             (position-plist position)
                             (list :snippet (and (evenp (length hints))
                                                 (getf hints :snippet)))))))))
           (constantly nil)))

(defun found-definitions (name)
  "Pairs of what NAME, a symbol or (SETF symbol), is defined as and of the location."
  (let ((found (guarded (lambda () (backend "FIND-DEFINITIONS" name)) (constantly '()))))
    (loop for definition in (and (listp found) found)
          when (and (consp definition) (consp (rest definition)))
            collect (list (first definition) (location-plist (second definition))))))

(defun definition-text (what)
  (printed what :limit 160 :circle nil))

(defun definition-list (name &key (limit 8))
  "The definitions of NAME whose places are known, at most LIMIT."
  (let ((found (remove nil (found-definitions name) :key #'second)))
    (append (loop for (what location) in found
                  repeat limit
                  collect (list :what (definition-text what) :location location))
            (when (> (length found) limit)
              (list (list :more (- (length found) limit)))))))

;;; Whose a thing is

(defun implementation-package-p (package)
  "Whether PACKAGE is of the implementation, of the client, or ours."
  (or (null package)
      (let ((name (package-name package)))
        (or (null name)
            (member name '("COMMON-LISP" "KEYWORD" "SYSTEM" "EXT" "EXTENSIONS" "CLOS" "I18N" "GRAY"
                           "CUSTOM" "CHARSET" "FFI" "POSIX" "SOCKET" "SI" "C" "MP" "CCL" "JAVA"
                           "THREADS" "FORMAT" "LOOP" "PROFILER" "PRETTY-PRINT" "SEQUENCE" "XP"
                           "ASDF" "UIOP" "SWANK" "SLYNK" "WALKER" "FASDEFINE" "CMP" "REGEXP"
                           "CS-COMMON-LISP" "CS-COMMON-LISP-USER" "SCREEN" "EXPORTING" "GSTREAM"
                           "READLINE" "SYSCALLS" "STACK-TRACE")
                    :test #'string=)
            (loop for prefix in '("SB-" "SWANK" "SLYNK" "AGENT-Q-IMAGE" "CLOS-" "ASDF/" "UIOP/"
                                  "EXT-" "SYSTEM/" "XREF" "QL-" "QUICKLISP" "ORG.ARMEDBEAR")
                  thereis (prefixed-p prefix name))))))

(defun first-symbol (tree)
  "The first symbol in TREE, a name or (DEFMETHOD name ...), that is of no implementation."
  (if (symbolp tree)
      tree
      (let ((symbols '()))
        (labels ((collect (tree)
                   (cond ((consp tree)
                          (loop for rest = tree then (cdr rest)
                                repeat 20 while (consp rest)
                                do (collect (car rest))))
                         ((and tree (symbolp tree)) (push tree symbols)))))
          (collect tree))
        (or (find-if-not #'implementation-package-p (reverse symbols) :key #'symbol-package)
            (first (last symbols))))))

(defun page (list offset limit)
  "LIMIT elements of LIST from OFFSET on."
  (loop for element in (nthcdr (max 0 (or offset 0)) list)
        repeat limit collect element))

(defun page-size (limit default most)
  (max 1 (min most (or limit default))))
