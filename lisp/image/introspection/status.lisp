;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; The image as a whole, and machine code. Operations: image-status, disassemble-function.

(cl:in-package "AGENT-Q-IMAGE")

;;; Status

(defun memory-text ()
  "How much memory the image uses, of how much, or NIL where that can't be asked."
  (let ((usage (or (optional-function "SB-KERNEL" "DYNAMIC-USAGE")
                   (optional-function "CCL" "%USEDBYTES")))
        (size (optional-function "SB-EXT" "DYNAMIC-SPACE-SIZE")))
    (guarded (lambda ()
               (and usage
                    (format nil "~D MB~@[ of ~D MB~]"
                            (round (funcall usage) 1048576)
                            (and size (round (funcall size) 1048576)))))
             (constantly nil))))

(defun thread-texts ()
  "The threads with what they do, as far as the client can tell."
  (guarded (lambda ()
             (unless (eq :spawn (backend "PREFERRED-COMMUNICATION-STYLE"))
               (return-from thread-texts
                 (list "none here: calls run one after the other, and the REPL waits for them")))
             (loop for thread in (backend "ALL-THREADS")
                   repeat 40
                   collect (let ((status (guarded (lambda () (backend "THREAD-STATUS" thread))
                                                  (constantly nil))))
                             (format nil "~A~@[ (~(~A~))~]"
                                     (backend "THREAD-NAME" thread)
                                     (and status (string/= (princ-to-string status) "")
                                          (not (member (princ-to-string status)
                                                       '("running" "thread is alive")
                                                       :test #'string-equal))
                                          status)))))
           (constantly '())))

(defun program-packages ()
  (sort (loop for package in (list-all-packages)
              unless (or (implementation-package-p package)
                         (string= (package-name package) "COMMON-LISP-USER"))
                collect (package-name package))
        #'string<))

(defun loaded-systems ()
  "The systems that ASDF has loaded."
  (let ((systems (optional-function "ASDF" "ALREADY-LOADED-SYSTEMS")))
    (guarded (lambda ()
               (and systems
                    (sort (remove-if (lambda (name)
                                       (or (member name '("asdf" "uiop" "asdf-package-system")
                                                   :test #'string=)
                                           (prefixed-p "sb-" name)))
                                     (copy-list (funcall systems)))
                          #'string<)))
             (constantly '()))))

(defun running-texts ()
  "The calls of ours that run, but for the one that asks."
  (loop for (id nil nil operation start) in *running*
        unless (eql id *call*)
          collect (format nil "~A for ~D s" operation
                          (round (- (get-internal-real-time) start)
                                 internal-time-units-per-second))))

(define-operation "image-status" ()
    "What the image is and what goes on in it."
  (list :implementation (let ((version (lisp-implementation-version)))
                          (format nil "~A ~A" (implementation-name)
                                  (subseq version 0 (search " (" version))))
        ;; CLISP tells how its C compiler was called.
        :machine (format nil "~@[~A ~]~@[~A~]" (unless (implementation-p "CLISP") (software-type))
                         (machine-type))
        :client (if (eq *client* :slynk) "SLY" "SLIME")
        :directory (printed *default-pathname-defaults* :writer #'princ :limit 300)
        :memory (memory-text)
        :threads (thread-texts)
        :packages (length (list-all-packages))
        :program-packages (program-packages)
        :systems (loaded-systems)
        :features (loop for feature in *features*
                        when (symbolp feature) collect (string-downcase (symbol-name feature)))
        :running (running-texts)
        :modules (mapcar #'car *versions*)
        :handles (if (boundp '*handles*) (length (symbol-value '*handles*)) 0)
        :compiling (and *compiling* t)))

;;; Machine code

(defun code-lines (function)
  "What DISASSEMBLE prints of FUNCTION, as lines."
  (let* ((text (write-bounded (lambda (stream)
                                (let ((*standard-output* stream)
                                      (*print-pretty* nil) (*print-circle* nil)
                                      (*print-length* 20) (*print-level* 4))
                                  (disassemble function)))
                              200000))
         (lines (loop with start = 0
                      for end = (position #\Newline text :start start)
                      collect (string-right-trim *blanks* (subseq text start end))
                      while end do (setf start (1+ end)))))
    (remove "" lines :test #'string=)))

(define-operation "disassemble-function" (function package limit offset)
    "The machine code, or byte code, of a function."
  (let* ((name (name-of-text function package))
         (symbol (name-symbol name))
         (spec (if (eq (name-kind name) :setf) (list 'setf symbol) symbol)))
    (cond ((not (fboundp spec))
           (missed "~A names no function." (name-text name)))
          ((and (symbolp spec) (special-operator-p spec))
           (missed "~A is a special operator; the compiler makes its code anew in each place."
                   (name-text name))))
    (let* ((macro (and (symbolp spec) (macro-function spec)))
           (function (or macro (fdefinition spec)))
           (lines (code-lines function))
           (offset (max 0 (or offset 0))))
      (when (null lines)
        (unavailable (format nil "disassemble_function for ~A" (name-text name))
                     "it does not keep the code of what was compiled through C"))
      (list :name (name-text name)
            :kind (if macro "macro function" (if (typep function 'generic-function)
                                                 "generic function" "function"))
            :total (length lines)
            :offset offset
            :lines (page lines offset (page-size limit 120 400))))))
